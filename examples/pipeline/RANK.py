# raymond: timeout=30s
"""Returns the most frequent words of the worker's text to its caller."""

import collections
import os
import pathlib
import re

text = pathlib.Path(os.environ["text"]).read_text(encoding="utf-8")
words = re.findall(r"[a-z]{4,}", text.lower())
most_common = collections.Counter(words).most_common(int(os.environ["words"]))

print("<result>" + ", ".join(f"{word} {count}" for word, count in most_common) + "</result>")
