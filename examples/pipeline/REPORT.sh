#!/bin/bash
# The call has returned: RAYMOND_RESULT is the result of RANK, and the variables of the fork are still set. The worker
# itself was not called, so its own result ends it.
set -euo pipefail

raymond emit result "$(basename "$text" .txt): $RAYMOND_RESULT"
