echo '<call-workflow return="END" issue="1" note="gone">../other.yaml</call-workflow>'
