# raymond: fatal=agent
echo x >> tries
[ $(wc -l < tries) = 1 ] && exit 1
echo "<result>second try</result>"
