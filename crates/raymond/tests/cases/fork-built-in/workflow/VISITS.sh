echo '<fork next="W" visits="1">W</fork>'
