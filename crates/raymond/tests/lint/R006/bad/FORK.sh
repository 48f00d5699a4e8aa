echo '<fork worktree="a/b" next="END">END</fork>'
echo '<fork worktree="a" cd=".." next="END">END</fork>'
echo '<fork worktree="a" from="--exec" next="END">END</fork>'
