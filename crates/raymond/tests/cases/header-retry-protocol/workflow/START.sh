# raymond: retry=3 backoff=10ms
echo x >> tries; echo 'no tag'
