echo '<call-workflow return="END">../../R032/good</call-workflow>'
