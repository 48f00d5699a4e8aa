echo '<call return="BACK" input="x">CHILD</call>'
