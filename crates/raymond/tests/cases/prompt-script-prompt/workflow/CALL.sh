echo '<call return="BACK">CHILD</call>'
