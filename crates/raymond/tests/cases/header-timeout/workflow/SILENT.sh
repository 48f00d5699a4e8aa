# raymond: timeout=200ms
echo 'last words' >&2; sleep 100
