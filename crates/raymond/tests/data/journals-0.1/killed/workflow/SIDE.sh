[ -e go ] || { touch side; sleep 300; }; echo '<result>side</result>'
