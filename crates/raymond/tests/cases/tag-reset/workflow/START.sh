mkdir -p sub/deep; echo '<call return="BACK">LOOP</call>'
