echo "<fork worktree=\"$1\" from=\"$2\" next='END'>END</fork>"
