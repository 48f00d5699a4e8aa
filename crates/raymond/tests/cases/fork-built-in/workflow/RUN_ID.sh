echo '<fork next="W" run_id="1">W</fork>'
