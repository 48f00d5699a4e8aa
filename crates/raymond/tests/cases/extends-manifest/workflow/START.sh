echo "<print>$COLOUR $SHAPE $issue $style $(cat "$notes")</print><goto>JUDGE</goto>"
