[ -e again ] && echo '<goto>B</goto>' || { touch again; echo '<goto>B.bat</goto>'; }
