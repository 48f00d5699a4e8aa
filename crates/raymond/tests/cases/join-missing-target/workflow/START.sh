echo '<join>NOWHERE</join>'
