touch ran
echo '<call-workflow return="START">../not-yet.yaml</call-workflow><call-workflow return="START">../other.yaml</call-workflow>'
