"""Reads the workers' results from the input file: a JSON array, in the order of the forks."""

import json
import os

with open(os.environ["RAYMOND_INPUT_FILE"], encoding="utf-8") as file:
    reviews = json.load(file)

lines = []
for review in reviews:
    said = review["result"] if review["status"] == "done" else f"no review: {review['error']}"
    lines.append(f"{review['attributes']['file']}: {said}")

print("<result>" + "\n".join(lines) + "</result>")
