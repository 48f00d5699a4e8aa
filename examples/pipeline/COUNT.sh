#!/bin/bash
# A worker's first state: calls RANK as a subroutine and continues at REPORT with its result.
echo '<call return="REPORT">RANK</call>'
