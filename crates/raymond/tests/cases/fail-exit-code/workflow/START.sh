echo '<result>ok</result>'; for i in $(seq 30); do echo "line $i" >&2; done; exit 3
