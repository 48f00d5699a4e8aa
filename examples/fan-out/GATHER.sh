echo "<join>SUMMARY</join>"
