# raymond: retry=1 backoff=10ms
[ -e mended ] && { echo '<result>mended</result>'; exit; }
echo "first line" >&2; echo "no such file" >&2; exit 2
