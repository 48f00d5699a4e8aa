#!/bin/bash
# A script finds the fact; it costs nothing.
echo "<goto input='$(LC_ALL=C date +%A)'>WISH</goto>"
