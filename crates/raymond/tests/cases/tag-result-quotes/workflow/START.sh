printf '<result>\n  use <goto>X</goto>, <fork next="a">or</fork> <print>this</print> &amp; that  \n\n</result>'
