"""Do the requests in the files given as arguments parse as the request types of the providers' own packages?

A file is named WIRE-ANYTHING.json and holds the body of one request. Keys that a type does not have are errors,
and so are values of another type that could be converted.
"""

import json
import pathlib
import sys
import typing
from typing import List, Optional

import pydantic

# The packages say `Iterable` where they mean a list; pydantic would look at the items of that only when they
# are taken out.
iterable, typing.Iterable = typing.Iterable, typing.List
import anthropic.types.message_create_params as messages  # noqa: E402
import openai.types.chat.completion_create_params as chat  # noqa: E402
import openai.types.responses.response_create_params as responses  # noqa: E402

typing.Iterable = iterable
from google.genai import types as gemini  # noqa: E402
from typing_extensions import is_typeddict  # noqa: E402


def refuse_unknown_keys() -> None:
    # Arbitrary types: files, where a picture may be given as one.
    config = pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in ("openai", "anthropic"):
            for value in vars(module).values():
                if is_typeddict(value):
                    value.__pydantic_config__ = config


class GenerateContent(pydantic.BaseModel):
    """The body; the package has types for its parts only."""

    model_config = pydantic.ConfigDict(extra="forbid")

    contents: List[gemini.Content]
    systemInstruction: Optional[gemini.Content] = None
    tools: Optional[List[gemini.Tool]] = None
    toolConfig: Optional[gemini.ToolConfig] = None
    generationConfig: Optional[gemini.GenerationConfig] = None


def main() -> int:
    refuse_unknown_keys()
    adapters = {
        "chat": pydantic.TypeAdapter(chat.CompletionCreateParamsStreaming),
        "responses": pydantic.TypeAdapter(responses.ResponseCreateParamsStreaming),
        "messages": pydantic.TypeAdapter(messages.MessageCreateParamsStreaming),
        "gemini": pydantic.TypeAdapter(GenerateContent),
    }
    # A check of the check: what no provider has must be refused.
    for wire, adapter in adapters.items():
        try:
            adapter.validate_json('{"no_such_key": 1}')
            print(f"{wire}: a key that does not exist was accepted")
            return 1
        except pydantic.ValidationError:
            pass
    failed = 0
    for file in map(pathlib.Path, sys.argv[1:]):
        body = file.read_text()
        try:
            adapters[file.name.split("-")[0]].validate_json(body, strict=True)
        except pydantic.ValidationError as error:
            failed += 1
            print(f"{file.name}: {error}\n{json.dumps(json.loads(body), indent=1)}")
    print(f"{len(sys.argv) - 1 - failed} requests parse, {failed} do not")
    return 1 if failed else 0


sys.exit(main())
