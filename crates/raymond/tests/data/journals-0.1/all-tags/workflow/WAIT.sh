echo "<join>JOINED</join>"
