echo bad >&2; exit 1
