# raymond: retry=1 backoff=10ms timeout=4s
[ -e tried ] && echo '<result>second time</result>' || { touch tried; sleep 300; }
