"""Puts the workers' results together: a join gives them as JSON, in the order of the forks."""

import json
import os
import pathlib
import sys

workers = json.loads(pathlib.Path(os.environ["RAYMOND_INPUT_FILE"]).read_text(encoding="utf-8"))
failed = [worker["agent"] for worker in workers if worker["status"] != "done"]
if failed:
    sys.exit(f"these workers failed: {', '.join(failed)}")

print("<result>" + "\n".join(worker["result"] for worker in workers) + "</result>")
