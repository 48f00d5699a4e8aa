for n in 1 2 3; do echo "<fork n='$n' next='END'>WORK</fork>"; done
