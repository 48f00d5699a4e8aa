import os
print('<result>' + os.path.basename(os.environ['RAYMOND_STATE_FILE']) + '</result>')
