echo '<call return="TELL">JUDGE</call>'
