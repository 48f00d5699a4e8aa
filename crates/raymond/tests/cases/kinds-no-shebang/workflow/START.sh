#!/bin/false
[[ 1 == 1 ]] && echo '<result>ok</result>'
