cat > /dev/null
echo '{"type":"thread.started","thread_id":"t1"}'
echo '{"type":"turn.failed","error":{"message":"You have hit your usage limit. Please try again at Nov 21st, 2099 8:33 AM."}}'
exit 1
