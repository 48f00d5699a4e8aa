#!/bin/bash
# The call has returned: RAYMOND_RESULT is what RANK handed back, and the variables of the fork are still there. The
# worker was not called by anyone, so its result is its end.
set -euo pipefail

echo "<result>$(basename "$text" .txt): $RAYMOND_RESULT</result>"
