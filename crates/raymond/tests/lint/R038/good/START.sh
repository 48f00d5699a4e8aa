case $1 in
  a) echo "<call-workflow return=\"END\" issue=\"$1\">../other</call-workflow>" ;;
  b) echo '<call-workflow return="END" issue="5" style="short">../other</call-workflow>' ;;
  *) echo '<fork-workflow next="END" issue="5" worker="a">../other</fork-workflow>' ;;
esac
