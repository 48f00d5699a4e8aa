case $RAYMOND_VISITS in 1) echo "<reset cd=\"sub/./deep\" input=\"again\">LOOP</reset>";; 2) pwd; echo "<reset cd=\"..\">LOOP</reset>";; *) echo "<result>$(basename $PWD)</result>";; esac
