# raymond: fatal=agent
exit 1
