echo ^<result^>x^</result^>
