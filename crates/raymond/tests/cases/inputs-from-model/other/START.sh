echo "<result>$issue [${Name-unset}] $RAYMOND_VAR_Name $Style</result>"
