echo '<call-workflow return="END" issue="1" nota="x">../other.yaml</call-workflow>'
