printf '<goto>\n  END \t\n</goto>'
