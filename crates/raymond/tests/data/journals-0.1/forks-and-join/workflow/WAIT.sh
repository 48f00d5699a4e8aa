echo "<join>END</join>"
