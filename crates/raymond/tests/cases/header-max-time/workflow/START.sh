# raymond: max_time=300ms
while :; do echo .; sleep 0.05; done
