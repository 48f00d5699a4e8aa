echo '<join>LAST</join>'
