"""What one tool call costs in one process: arguments checked, an async function called, a message made.

usage: dispatch.py floor|langchain|pydantic_ai|openai_agents TOOLS

Prints one JSON object: microseconds for each call, the best of several rounds.
"""

import asyncio
import gc
import json
import os
import sys
import time

os.environ["LANGSMITH_TRACING"] = "false"
os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

ARGUMENTS = {"a": 2, "b": 3}
TEXT = json.dumps(ARGUMENTS)
ROUNDS = 9
CALLS = 150


def adder(number: int):
    async def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    add.__name__ = add.__qualname__ = f"add_{number}"
    return add


def floor(tools: int, target: str):
    import fastjsonschema

    integer = {"type": "integer"}
    schema = {
        "type": "object",
        "properties": {"a": integer, "b": integer},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    check = fastjsonschema.compile(schema)
    known = {f"add_{number}": (check, adder(number)) for number in range(tools)}

    async def call(key: str):
        check, function = known[target]
        arguments = json.loads(TEXT)
        check(arguments)
        result = await function(**arguments)
        return {"role": "tool", "tool_call_id": key, "content": json.dumps(result)}

    return call


def langchain(tools: int, target: str):
    from langchain_core.tools import StructuredTool

    def tool(number: int):
        return StructuredTool.from_function(
            coroutine=adder(number), name=f"add_{number}", description="Add two integers."
        )

    known = {f"add_{number}": tool(number) for number in range(tools)}

    async def call(key: str):
        asked = {"name": target, "args": dict(ARGUMENTS), "id": key, "type": "tool_call"}
        return await known[target].ainvoke(asked)

    return call


def pydantic_ai(tools: int, target: str):
    from pydantic_ai import FunctionToolset, RunContext
    from pydantic_ai.messages import ToolCallPart, ToolReturnPart
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.tool_manager import ToolManager
    from pydantic_ai.usage import RunUsage

    toolset = FunctionToolset()
    for number in range(tools):
        toolset.add_function(adder(number), name=f"add_{number}")
    context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    manager = None

    async def call(key: str):
        nonlocal manager
        if manager is None:
            manager = await ToolManager(toolset).for_run_step(context)
        result = await manager.handle_call(ToolCallPart(target, TEXT, key))
        return ToolReturnPart(tool_name=target, content=result, tool_call_id=key)

    return call


def openai_agents(tools: int, target: str):
    from agents import function_tool
    from agents.tool_context import ToolContext
    from agents.usage import Usage

    known = {f"add_{number}": function_tool(adder(number)) for number in range(tools)}

    async def call(key: str):
        context = ToolContext(
            context=None, usage=Usage(), tool_name=target, tool_call_id=key, tool_arguments=TEXT
        )
        result = await known[target].on_invoke_tool(context, TEXT)
        return {"type": "function_call_output", "call_id": key, "output": str(result)}

    return call


PEERS = {
    "floor": floor,
    "langchain": langchain,
    "pydantic_ai": pydantic_ai,
    "openai_agents": openai_agents,
}


async def main() -> None:
    peer, tools = sys.argv[1], int(sys.argv[2])
    call = PEERS[peer](tools, f"add_{tools // 2}")
    answer = await call("c0")
    assert "5" in str(getattr(answer, "content", answer)), answer
    gc.collect()
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for number in range(CALLS):
            await call(f"c{number}")
        best = min(best, (time.perf_counter() - started) / CALLS)
    print(json.dumps({"peer": peer, "tools": tools, "us_per_call": best * 1e6}), flush=True)


asyncio.run(main())
