echo '<call return="END">OUTER</call>'
