@echo off
REM raymond: timeout=1m
REM A script is a state, too: it costs nothing, and its output says what comes next. Text from an agent is read as
REM !NAME!, which is expanded after the line has been parsed; %NAME% could become a command.
setlocal EnableDelayedExpansion
if defined RAYMOND_INPUT (
  echo ^<result^>!RAYMOND_INPUT!^</result^>
) else (
  echo ^<goto^>START^</goto^>
)
