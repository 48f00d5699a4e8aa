@echo off
REM raymond: timeout=1m max_visits=3
REM Sends an agent back that handed nothing on. Its text is a value here, and never becomes a command: !NAME! is put
REM in after a line has been understood, %NAME% would be before.
setlocal EnableDelayedExpansion
if defined RAYMOND_INPUT (
    echo ^<result^>!RAYMOND_INPUT!^</result^>
) else (
    echo ^<goto^>START^</goto^>
)
