echo '<call-workflow return="START">../other</call-workflow>'
