printf 'noise \xff\xfe<goto input="a\x00b\xffc\r\x07d">NEXT</goto>\xc3'
