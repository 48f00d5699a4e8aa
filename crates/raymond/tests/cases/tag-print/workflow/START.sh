printf '<print>one</print> noise <print>two\nlines</print><print></print>'; printf '<goto>END</goto><print>after \033[31mred\033[0m</print>'
