python3 -c 'import json,os; print("<result>"+", ".join(sorted(w["result"] for w in json.loads(os.environ["RAYMOND_RESULT"])))+"</result>")'
