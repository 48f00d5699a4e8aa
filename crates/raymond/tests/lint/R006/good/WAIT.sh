echo "<goto delay=\"$TIME\">END</goto>"
