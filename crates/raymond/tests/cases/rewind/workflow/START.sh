echo START >> ran
echo '<goto input="a plan">DRAFT</goto>'
