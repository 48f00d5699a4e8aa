import json, os
for worker in json.loads(os.environ["RAYMOND_RESULT"]):
    print("<print>" + worker["state"] + ": " + str(worker["error"] or worker["result"]) + "</print>")
print("<result>done</result>")
