echo "<goto input=\"script $issue_id\">P</goto>"
