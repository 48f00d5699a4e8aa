#!/bin/bash
# raymond: retry=3 backoff=20ms
echo x >> tries; [ $(wc -l < tries) -ge 3 ] && echo "<result>$(wc -l < tries) tries, visit $RAYMOND_VISITS</result>" || exit 9
