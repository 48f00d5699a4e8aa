printf 'so:\n```xml\n<goto>END</goto>\n```\n'
