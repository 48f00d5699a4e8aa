echo '<fork next="W" workflow_id="1">W</fork>'
