env | grep -E "^(item|ITEM|issue_id|TAR_OPTIONS|path|PATH=x|http_proxy|Big_Name|RAYMOND_VAR_.*)=" | sort > "$RAYMOND_AGENT_ID.txt"
echo '<result>v</result>'
