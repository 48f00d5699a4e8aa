echo "<join>LAST</join>"
