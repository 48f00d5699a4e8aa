echo '<join>END</join>'
