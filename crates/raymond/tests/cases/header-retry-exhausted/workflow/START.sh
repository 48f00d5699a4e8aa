# raymond: retry=2 backoff=10ms
echo x >> tries; echo "try $(wc -l < tries)" >&2; exit 4
