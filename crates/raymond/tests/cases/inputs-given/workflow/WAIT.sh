echo '<join>TELL</join>'
