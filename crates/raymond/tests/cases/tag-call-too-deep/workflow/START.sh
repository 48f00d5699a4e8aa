echo '<call return="START">START</call>'
