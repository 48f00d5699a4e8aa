echo "<reset-workflow>../clone/$(echo flows)</reset-workflow>"
