echo '<join>AGAIN</join>'
