echo '<fork next="W" task_folder="1">W</fork>'
