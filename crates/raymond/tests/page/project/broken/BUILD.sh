#!/bin/bash
# fatal: false
echo "building …"
echo "error[E0432]: unresolved import \`crate::range\`" >&2
exit 101
