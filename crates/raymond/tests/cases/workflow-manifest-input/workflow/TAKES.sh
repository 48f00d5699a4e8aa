# raymond: fatal=agent
echo '<fork-workflow next="END" input="x">../takes.yaml</fork-workflow>'
