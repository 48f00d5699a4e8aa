echo '<goto>  </goto>'
