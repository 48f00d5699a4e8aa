echo '<goto delay="1h">WORK</goto>'
