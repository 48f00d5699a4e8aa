# raymond: retry=1 backoff=10ms timeout=1s
[ -e tried ] && echo '<result>second time</result>' || { touch tried; sleep 100; }
