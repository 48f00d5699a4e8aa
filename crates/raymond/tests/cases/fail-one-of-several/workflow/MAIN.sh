touch started-main; [ -e mended ] || exec sleep 300; echo "<result>all done</result>"
