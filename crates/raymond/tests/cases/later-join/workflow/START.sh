echo '<join>START</join>'
