echo '<call return="BACK">IN</call>'
