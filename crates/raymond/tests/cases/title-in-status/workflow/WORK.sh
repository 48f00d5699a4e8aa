# raymond: fatal=agent
if [ "$n" = 2 ]; then echo '<ask next="WORK">Which one?</ask>'; else exit 3; fi
