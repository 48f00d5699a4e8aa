echo '<call-workflow return="END" >../other.yaml</call-workflow>'
