cat > /dev/null
echo '{"type":"thread.started","thread_id":"t1"}'
case "$*" in
*"fork t1 -")
    echo '{"type":"turn.failed","error":{"message":"You have hit your usage limit. Please try again at Nov 21st, 2099 8:33 AM."}}'
    exit 1
    ;;
esac
echo '{"type":"item.completed","item":{"type":"agent_message","text":"<goto>NEXT</goto>"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":1000,"output_tokens":10}}'
