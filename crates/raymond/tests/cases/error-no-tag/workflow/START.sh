echo 'all done'; echo 'a note' >&2
