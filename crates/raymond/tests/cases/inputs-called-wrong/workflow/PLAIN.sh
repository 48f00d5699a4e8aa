echo '<call-workflow return="END" issue="1">../plain.yaml</call-workflow>'
