echo noise; echo noise >&2; echo '<print>for people</print><result>{"a": 1}</result>'
