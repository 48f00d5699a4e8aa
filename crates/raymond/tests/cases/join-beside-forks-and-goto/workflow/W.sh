[ $i = 1 ] && until [ -e last ]; do sleep 0.01; done; [ $i = 3 ] && touch last; echo "<result>did $i</result>"
