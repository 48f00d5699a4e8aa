echo '<call-workflow return="END" issue="x">../other.yaml</call-workflow>'
