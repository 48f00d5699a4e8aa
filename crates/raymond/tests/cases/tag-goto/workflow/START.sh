echo '<goto input="one">B.sh</goto>'
