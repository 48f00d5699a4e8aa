echo '<fork next="W" agent_id="1">W</fork>'
