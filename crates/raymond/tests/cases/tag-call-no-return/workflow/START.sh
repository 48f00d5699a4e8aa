echo '<call>START</call>'
