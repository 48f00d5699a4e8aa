printf '<print>\033]0;title\007 \033[2Jgone</print>'; printf 'err \033[31mred\033[0m\r\n' >&2; exit 1
