#!/bin/bash
# The plan is made in a conversation of its own: everything that was read for it is forgotten afterwards.
echo "<function return='WRITE'>PLAN</function>"
