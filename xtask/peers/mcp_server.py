"""A server of tools made with the official Python package, on stdin and stdout."""

import asyncio
import os
import sys

from mcp.server.mcpserver import Context, Image, MCPServer
from pydantic import BaseModel

server = MCPServer("python")

# 1×1 pixel.
DOT = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6364f8cf500f0003860180"
    "5a347d6b0000000049454e44ae426082"
)


class Place(BaseModel):
    city: str
    height: float


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def place(city: str) -> Place:
    """Says where a city is."""
    return Place(city=city, height=12.5)


@server.tool()
def dot() -> Image:
    """Draws a dot."""
    return Image(data=DOT, format="png")


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Counts, and says how far it is."""
    for n in range(1, to + 1):
        await ctx.report_progress(n, to)
        await asyncio.sleep(0.15)
    return f"counted to {to}"


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("as it should")


@server.tool()
def die(code: int) -> str:
    """Ends the server in the middle of the call."""
    print("dying", file=sys.stderr, flush=True)
    os._exit(code)


@server.resource("note://one")
def note() -> str:
    """A note."""
    return "The first note."


if __name__ == "__main__":
    server.run("stdio")
