echo "<result>${title:-none} $file</result>"
