"""`claude-agent-sdk` as it is installed, with nothing changed but `cli_path`. Each scenario says on a line of
stdout what it saw; whether that is right is decided by the job that started this."""

import asyncio
import json
import sys

from claude_agent_sdk import (
    AgentDefinition,
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    InMemorySessionStore,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    SystemMessage,
    TextBlock,
    create_sdk_mcp_server,
    query,
    tool,
)
from claude_agent_sdk.types import HookEventMessage, StreamEvent

BINARY = sys.argv[1]
PLACES = json.loads(sys.argv[2])
LIMIT_SECS = 60


def options(name, **more):
    place = PLACES[name]
    return ClaudeAgentOptions(cli_path=BINARY, cwd=place["cwd"], env=place["env"], **more)


def outcome(message):
    """What a caller reads of a result."""
    return {
        "result": message.result,
        "is_error": message.is_error,
        "subtype": message.subtype,
        "structured": message.structured_output,
        "turns": message.num_turns,
        "denials": message.permission_denials,
    }


async def until_result(messages):
    seen = []
    async for message in messages:
        seen.append(message)
        if isinstance(message, ResultMessage):
            break
    return seen


def text_of(messages):
    blocks = [b for m in messages if isinstance(m, AssistantMessage) for b in m.content]
    return [block.text for block in blocks if isinstance(block, TextBlock)]


async def ask(name, **more):
    """One prompt, to the end of the process."""
    seen = []
    async for message in query(prompt="Go.", options=options(name, **more)):
        seen.append(message)
    return seen


async def plain(name):
    seen = await ask(name)
    init = [m for m in seen if isinstance(m, SystemMessage) and m.subtype == "init"]
    return {
        **outcome(seen[-1]),
        "text": text_of(seen),
        "version": init[0].data["claude_code_version"],
        "types": [type(message).__name__ for message in seen],
    }


async def structured(name):
    schema = {
        "type": "object",
        "properties": {"risk": {"enum": ["low", "high"]}},
        "required": ["risk"],
    }
    seen = await ask(name, output_format={"type": "json_schema", "schema": schema}, max_turns=3)
    return outcome(seen[-1])


async def two_turns(name):
    async with ClaudeSDKClient(options(name)) as client:
        info = await client.get_server_info()
        results = []
        for prompt in ["first", "second"]:
            await client.query(prompt)
            results.append(outcome((await until_result(client.receive_response()))[-1])["result"])
        return {"results": results, "answered": sorted(info)}


def deciding(decision):
    async def can_use_tool(tool_name, tool_input, context):
        asked.append({"tool": tool_name, "input": tool_input, "id": context.tool_use_id})
        return decision(tool_input)

    asked = []
    return asked, can_use_tool


async def permission(name, decision):
    asked, can_use_tool = deciding(decision)
    async with ClaudeSDKClient(options(name, can_use_tool=can_use_tool)) as client:
        await client.query("Write it.")
        seen = await until_result(client.receive_response())
    return {**outcome(seen[-1]), "asked": asked}


async def allowed(name):
    return await permission(name, lambda _: PermissionResultAllow())


async def changed(name):
    return await permission(
        name, lambda given: PermissionResultAllow(updated_input={**given, "content": "changed\n"})
    )


async def denied(name):
    return await permission(name, lambda _: PermissionResultDeny(message="not today"))


async def interrupt(name):
    async with ClaudeSDKClient(options(name, include_partial_messages=True)) as client:
        await client.query("Slow.")
        messages = client.receive_response()
        async for message in messages:
            if isinstance(message, StreamEvent) and message.event["type"] == "content_block_delta":
                break
        await client.interrupt()
        stopped = outcome((await until_result(messages))[-1])
        await client.query("Again.")
        after = outcome((await until_result(client.receive_response()))[-1])
    return {"stopped": stopped, "after": after["result"]}


async def partials(name):
    seen = await ask(name, include_partial_messages=True)
    events = [m.event for m in seen if isinstance(m, StreamEvent)]
    deltas = [e["delta"].get("text", "") for e in events if e["type"] == "content_block_delta"]
    return {"deltas": deltas, "text": text_of(seen)}


async def in_process_tool(name):
    called = []

    @tool("add", "Adds two numbers", {"a": float, "b": float})
    async def add(args):
        called.append(args)
        return {"content": [{"type": "text", "text": str(args["a"] + args["b"])}]}

    server = create_sdk_mcp_server(name="calc", version="1.0.0", tools=[add])
    async with ClaudeSDKClient(
        options(name, mcp_servers={"calc": server}, allowed_tools=["mcp__calc__add"])
    ) as client:
        await client.query("Add.")
        seen = await until_result(client.receive_response())
        status = await client.get_mcp_status()
    return {**outcome(seen[-1]), "called": called, "status": status.get("mcpServers")}


async def hook(name):
    """A command that a hook of the caller refuses, and the events of that hook in the stream."""
    told = []

    async def guard(hook_input, tool_use_id, context):
        told.append({"tool": hook_input["tool_name"], "command": hook_input["tool_input"]["command"]})
        return {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny",
                "permissionDecisionReason": "not here",
            }
        }

    async with ClaudeSDKClient(
        options(
            name,
            hooks={"PreToolUse": [HookMatcher(matcher="Bash", hooks=[guard])]},
            include_hook_events=True,
            permission_mode="bypassPermissions",
        )
    ) as client:
        await client.query("Run it.")
        seen = await until_result(client.receive_response())
    events = [[m.subtype, m.hook_event_name] for m in seen if isinstance(m, HookEventMessage)]
    return {**outcome(seen[-1]), "told": told, "events": events}


async def background(name):
    """Work that goes on beside the conversation is told in a form that the parser takes."""
    seen = await ask(name, permission_mode="bypassPermissions")
    return {**outcome(seen[-1]), "types": sorted({type(message).__name__ for message in seen})}


async def store(name):
    """What is mirrored to a store of the caller is enough to go on from, on another machine."""
    kept = InMemorySessionStore()

    def elsewhere(place, **more):
        # This process has another home than the one it starts, so it must be told where that one's is.
        env = {**place["env"], "CLAUDE_CONFIG_DIR": place["env"]["HOME"] + "/.claude"}
        return ClaudeAgentOptions(
            cli_path=BINARY, cwd=place["cwd"], env=env, session_store=kept, **more
        )

    first = elsewhere(PLACES[name])
    seen = [message async for message in query(prompt="Tell me.", options=first)]
    session = seen[-1].session_id
    second = elsewhere(PLACES[name + " again"], resume=session)
    after = [message async for message in query(prompt="And then?", options=second)]
    return {**outcome(after[-1]), "same session": after[-1].session_id == session}


async def control_requests(name):
    """Everything that a client can be asked to do between two turns."""
    agent = AgentDefinition(description="Reviews code", prompt="You review code.", tools=["Read"])
    async with ClaudeSDKClient(options(name, agents={"reviewer": agent})) as client:
        await client.set_permission_mode("bypassPermissions")
        await client.set_model("other-model")
        usage = await client.get_context_usage()
        servers = await client.get_mcp_status()
        try:
            await client.rewind_files("5e551011-0000-4000-8000-000000000000")
            rewound = "done"
        except Exception as error:
            rewound = str(error)
        await client.query("Go.")
        seen = await until_result(client.receive_response())
        await client.set_model(None)
        await client.query("Go on.")
        after = await until_result(client.receive_response())
    init = [m.data for m in seen + after if isinstance(m, SystemMessage) and m.subtype == "init"]
    return {
        "mode": init[0]["permissionMode"],
        "models": [line["model"] for line in init],
        "agents": init[0]["agents"],
        "usage": sorted(usage),
        "servers": servers.get("mcpServers"),
        "rewound": rewound,
    }


async def many_flags(name):
    """Everything that the options can put on the command line and that needs no file."""
    said = []
    seen = await ask(
        name,
        allowed_tools=["Read", "Bash(git status:*)"],
        disallowed_tools=["WebFetch"],
        tools=["Read", "Bash"],
        permission_mode="acceptEdits",
        max_turns=5,
        fallback_model="other-model",
        betas=["context-1m-2025-08-07"],
        setting_sources=["user", "project", "local"],
        settings='{"limits": {"toolCalls": 3}}',
        add_dirs=[PLACES[name]["cwd"]],
        system_prompt="You are brief.",
        task_budget={"total": 100000},
        session_id="2bec3e94-56aa-43ba-8c6f-8306da3a8564",
        stderr=said.append,
    )
    return {**outcome(seen[-1]), "session": seen[-1].session_id, "warnings": [s for s in said if "warning" in s]}


SCENARIOS = {
    "query": plain,
    "structured result": structured,
    "two turns": two_turns,
    "allowed": allowed,
    "changed": changed,
    "denied": denied,
    "interrupt": interrupt,
    "partial messages": partials,
    "in-process tool": in_process_tool,
    "hook": hook,
    "background": background,
    "session store": store,
    "control requests": control_requests,
    "flags": many_flags,
}


async def main():
    for name, scenario in SCENARIOS.items():
        try:
            saw = await asyncio.wait_for(scenario(name), LIMIT_SECS)
        except Exception as error:
            saw = {"raised": f"{type(error).__name__}: {error}"}
        print("saw " + json.dumps({"name": name, "saw": saw}), flush=True)


asyncio.run(main())
