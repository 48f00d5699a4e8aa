echo '<join>J</join>'
