echo '<call return="START" delay="1s">START</call>'
