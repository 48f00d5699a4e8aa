echo '<goto>..</goto>'
