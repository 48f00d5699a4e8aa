# A new conversation is answered. One that goes on is refused because of a limit.
cat > /dev/null
case "$*" in
*fork*)
    echo '{"type":"thread.started","thread_id":"two"}'
    echo '{"type":"turn.failed","error":{"message":"You have hit your usage limit. Please try again at Nov 21st, 2099 8:33 AM."}}'
    exit 1
    ;;
esac
echo '{"type":"thread.started","thread_id":"one"}'
echo '{"type":"item.completed","item":{"type":"agent_message","text":"<goto>NEXT</goto>"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":10,"output_tokens":2}}'
