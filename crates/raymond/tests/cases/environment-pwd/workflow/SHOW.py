import os
assert os.environ['PWD'] == os.getcwd(), os.environ['PWD']
print('<result>' + os.path.basename(os.environ['PWD']) + '</result>')
