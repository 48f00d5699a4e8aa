echo '<join>THEN</join>'
