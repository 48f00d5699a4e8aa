#!/bin/bash
echo "<goto>BUILD</goto>"
