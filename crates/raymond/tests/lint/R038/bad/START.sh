echo '<call-workflow return="END">../other</call-workflow>'
echo '<call-workflow return="END" issue="five" stile="x">../other</call-workflow>'
echo '<fork-workflow next="END" worker="a">../other</fork-workflow>'
raymond emit call-workflow ../other --return END isue=5
