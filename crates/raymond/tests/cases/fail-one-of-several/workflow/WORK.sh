touch "started-$i"; [ -e mended ] || exec sleep 300; echo "<result>$i</result>"
