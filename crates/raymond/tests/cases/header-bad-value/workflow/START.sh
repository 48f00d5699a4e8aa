#!/bin/bash
# raymond: retry=2 timeout=soon
echo '<result>ok</result>'
