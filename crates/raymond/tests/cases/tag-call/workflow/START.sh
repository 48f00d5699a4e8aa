echo '<call return="END" input="in">OUTER</call>'
