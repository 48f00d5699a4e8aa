echo START >> trace; echo '<goto input="kept">BUILD</goto>'
