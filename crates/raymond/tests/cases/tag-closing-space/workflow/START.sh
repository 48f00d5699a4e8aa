printf '<goto>B</goto\n>'
