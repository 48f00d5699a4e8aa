echo '<fork next="R" ITEM="of a script">V</fork>'
