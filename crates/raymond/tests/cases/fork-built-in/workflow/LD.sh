echo '<fork next="W" LD-PRELOAD="x">W</fork>'
