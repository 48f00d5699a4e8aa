@echo off
REM raymond: timeout=1m
REM A script is a state, too: it costs nothing, and what it prints says what comes next.
if defined RAYMOND_INPUT (
  echo ^<result^>%RAYMOND_INPUT%^</result^>
) else (
  echo ^<goto^>START^</goto^>
)
