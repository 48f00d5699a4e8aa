# raymond: fatal=agent
echo "<fork next=\"END\" $name=\"x\">END</fork>"
