echo '<join>DONE</join>'
