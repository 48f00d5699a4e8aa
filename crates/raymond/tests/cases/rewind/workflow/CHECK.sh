echo CHECK >> ran
echo "<goto input=\"$(wc -l < ran) scripts ran\">REVISE</goto>"
