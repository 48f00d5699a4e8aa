echo '<fork next="START" a.b="x">START</fork>'
