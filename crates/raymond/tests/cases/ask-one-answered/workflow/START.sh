echo '<fork next="ASK">ASK</fork>'
