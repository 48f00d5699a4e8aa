printf '<result>   </result>'
