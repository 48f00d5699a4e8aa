# raymond: fatal=agent
touch failed-now; exit 5
