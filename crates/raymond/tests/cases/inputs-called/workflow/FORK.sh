echo "<fork-workflow issue=\"4\" note=\"note.txt\" extra=\"x\" next=\"WAIT\">../other</fork-workflow>"
