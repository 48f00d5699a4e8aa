[ -e go ] && echo '<result>ok</result>' || exit 1
