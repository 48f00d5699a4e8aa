echo ^<goto^>TIDY^</goto^>
