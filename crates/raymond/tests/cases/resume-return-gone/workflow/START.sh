echo '<call return="BACK">WORK</call>'
