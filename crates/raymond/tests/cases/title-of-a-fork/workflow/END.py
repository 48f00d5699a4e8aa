import json, os
print("<result>%s</result>" % [entry.get("title") for entry in json.loads(os.environ["RAYMOND_INPUT"])])
