@echo off
REM raymond: timeout=1m max_visits=3
REM Sends the agent back if it passed nothing on. Its text is a value here, and never becomes a command: cmd.exe expands
REM !NAME! after it has parsed a line, and %NAME% before.
setlocal EnableDelayedExpansion
if defined RAYMOND_INPUT (
    echo ^<result^>!RAYMOND_INPUT!^</result^>
) else (
    echo ^<goto^>START^</goto^>
)
