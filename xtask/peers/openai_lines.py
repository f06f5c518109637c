"""Reads files of lines, and parses each line that has an `object` as the type of the `openai` package of that name,
validated. Two things of this dialect are not that package's and are set aside: `metadata` that holds more than strings, and
completions that end in `finish_reason: "error"`."""

import json
import sys

from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import ValidationError

TYPES = {"chat.completion": ChatCompletion, "chat.completion.chunk": ChatCompletionChunk}

parsed = {name: 0 for name in TYPES}
failed = 0
for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            value = json.loads(line)
            if not isinstance(value, dict) or "object" not in value:
                continue
            value.pop("metadata", None)
            for choice in value.get("choices", []):
                if choice.get("finish_reason") == "error":
                    choice["finish_reason"] = "stop"
            try:
                TYPES[value["object"]].model_validate(value, strict=True)
                parsed[value["object"]] += 1
            except (KeyError, ValidationError) as error:
                failed += 1
                print(f"{path}:{number}: {error!r}\n  {line[:400]}")

print(f"{parsed}, {failed} failed")
if failed or not all(parsed.values()):
    sys.exit(1)
