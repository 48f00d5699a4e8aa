# raymond: retry=1
echo "<call return='END'>STEP</call>"
