# raymond: retry=1 backoff=1ms
echo "said $RAYMOND_INPUT, $MY_API_KEY" >&2
echo "and $DB_PASSWORD" >&2
exit 1
