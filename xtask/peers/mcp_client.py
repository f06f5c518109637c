"""Drives `tenon mcp serve` with the official Python client. Prints one line of JSON for each thing it did."""

import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters, stdio_client

SCHEMA = {"type": "object", "properties": {"risk": {"enum": ["low", "high"]}}, "required": ["risk"]}


def say(name, value):
    print("did", json.dumps({"name": name, "value": value}), flush=True)


def shown(result):
    text = "".join(block.text for block in result.content if block.type == "text")
    structured = getattr(result, "structured_content", None)
    return {"text": text, "structured": structured, "error": bool(getattr(result, "is_error", False))}


async def main(binary, folder):
    server = StdioServerParameters(
        command=binary, args=["mcp", "serve"], env=dict(os.environ), cwd=folder
    )
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        greeting = await session.initialize()
        say("greeting", getattr(greeting, "server_info", None).name)
        tools = await session.list_tools()
        say("tools", [tool.name for tool in tools.tools])
        steps = []

        async def step(progress, total, message):
            steps.append(message)

        rated = await session.call_tool(
            "run", {"prompt": "Rate it: first.", "schema": SCHEMA}, progress_callback=step
        )
        say("payload", shown(rated))
        say("progress", len(steps))
        both = await asyncio.gather(
            session.call_tool("run", {"prompt": "Talk: second."}),
            session.call_tool("run", {"prompt": "Talk: third."}),
        )
        say("side by side", [shown(result)["text"] for result in both])
        failed = await session.call_tool("run", {"prompt": "x", "schema": {"type": "nonsense"}})
        say("failure", shown(failed))
        try:
            await session.call_tool("run", {"prompt": "Hang: fourth."}, read_timeout_seconds=1)
            say("given up", False)
        except Exception:
            say("given up", True)


asyncio.run(main(*sys.argv[1:]))
print("done", flush=True)
