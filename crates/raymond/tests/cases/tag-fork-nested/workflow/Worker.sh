[ $RAYMOND_VISITS = 1 ] && [ $RAYMOND_AGENT_ID = main_worker1 ] && echo '<fork next="LEAF">ANALYZE_ALL</fork>' || echo '<result>ok</result>'
