echo "BUILD $RAYMOND_INPUT" >> trace; echo oops >&2; exit 1
