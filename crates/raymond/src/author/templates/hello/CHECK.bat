@echo off
REM raymond: timeout=1m
REM A script is a state, too: it costs nothing, and what it prints says what comes next. What an agent wrote is read
REM as !NAME!, which is put in after the line has been understood; %NAME% could become a command.
setlocal EnableDelayedExpansion
if defined RAYMOND_INPUT (
  echo ^<result^>!RAYMOND_INPUT!^</result^>
) else (
  echo ^<goto^>START^</goto^>
)
