echo "<join>STOP</join>"
