printf "<result>%s &lt;</result>" "$RAYMOND_INPUT"
