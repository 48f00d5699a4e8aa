echo "<join>DONE</join>"
