# raymond: retry=1 backoff=10ms timeout=200ms
[ -e tried ] && echo '<result>second time</result>' || { touch tried; sleep 100; }
