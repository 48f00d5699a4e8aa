echo '<fork-workflow next="END">../other.yaml</fork-workflow>'
