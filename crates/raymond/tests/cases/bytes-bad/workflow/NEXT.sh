printf "<result>%s|\xf0\x9f\x98 é</result>" "$RAYMOND_INPUT"
