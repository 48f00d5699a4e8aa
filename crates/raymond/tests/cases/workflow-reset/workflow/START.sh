echo '<call return="BACK">DEEP</call>'
