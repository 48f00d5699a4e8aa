#!/bin/bash
echo "<goto input='14 commits, 3 releases'>WRITE</goto>"
