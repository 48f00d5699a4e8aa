cat > /dev/null
case "$*" in
*"fork t1 -") id=t2 input=2000000 reply='<result>done</result>' ;;
*) id=t1 input=1000000 reply='<goto>NEXT</goto>' ;;
esac
echo "{\"type\":\"thread.started\",\"thread_id\":\"$id\"}"
echo "{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"$reply\"}}"
echo "{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":$input,\"output_tokens\":0}}"
