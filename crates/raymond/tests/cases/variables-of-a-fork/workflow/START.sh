echo '<fork next="END" item="{{agent_id}} &lt;b&gt;" input="in">W</fork>'
