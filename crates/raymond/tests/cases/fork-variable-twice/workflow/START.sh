echo '<fork next="START" a="x" a="y">START</fork>'
