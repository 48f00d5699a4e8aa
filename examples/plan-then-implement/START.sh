#!/bin/bash
# The plan is made in a conversation of its own: what was read on the way to it is not carried along later.
echo "<function return='WRITE'>PLAN</function>"
