echo '<call return="NOWHERE">START</call>'
