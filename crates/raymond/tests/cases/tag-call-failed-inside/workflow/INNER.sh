echo 'went wrong' >&2; exit 7
