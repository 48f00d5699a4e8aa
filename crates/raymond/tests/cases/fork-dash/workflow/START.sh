echo '<fork issue-id="7" next="N">W</fork>'
