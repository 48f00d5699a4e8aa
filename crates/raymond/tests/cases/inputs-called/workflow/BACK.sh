echo "<print>back: $issue $mine ${style-no style}</print><function-workflow return=\"FORK\" issue=\"3\" style=\"long\">../other</function-workflow>"
