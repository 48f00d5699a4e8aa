echo '<goto>END</goto>' >&2; echo '<result>ok</result>'
