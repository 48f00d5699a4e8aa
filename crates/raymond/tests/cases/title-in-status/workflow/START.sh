printf '<fork title="Mend\033[31m the login">WORK</fork><fork n="2">WORK</fork><join>END</join>\n'
