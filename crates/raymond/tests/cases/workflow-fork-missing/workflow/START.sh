echo '<fork-workflow next="START">../other</fork-workflow>'
