# raymond: fatal=agent
exit 5
