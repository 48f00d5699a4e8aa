# raymond: timeout=3s
echo 'last words' >&2; sleep 300
