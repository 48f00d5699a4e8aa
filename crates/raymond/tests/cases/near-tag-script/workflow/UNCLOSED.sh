printf '%s\n' '<fork item="a">W' '<fork item="b">W</fork>' '<goto>N</goto>'
