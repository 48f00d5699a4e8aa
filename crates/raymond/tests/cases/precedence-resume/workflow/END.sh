[ -e mended2 ] || { touch mended2; exit 1; }; echo "<goto>VERY</goto>"
