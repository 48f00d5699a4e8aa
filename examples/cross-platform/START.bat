@echo off
REM raymond: timeout=1m
REM Counts the parcels, so that no model has to. START.sh does the same on Unix.
set count=0
for /f "usebackq delims=" %%l in ("%RAYMOND_STATE_DIR%\parcels.txt") do set /a count+=1 >nul
echo ^<goto input="%count%"^>NOTE^</goto^>
