"""A Pydantic AI agent with Haft as its toolset; its model follows a script."""

import asyncio

from fastmcp.client.transports import StreamableHttpTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

from haft import AWAIT, GATED, PLAIN, Haft, handle_in


def returned(messages):
    parts = [part for message in messages for part in message.parts]
    return [part for part in parts if isinstance(part, ToolReturnPart)]


def scripted(haft):
    def model(messages, info):
        results = returned(messages)
        match len(results):
            case 0:
                names = {tool.name for tool in info.function_tools}
                assert {PLAIN, GATED, AWAIT} <= names, names
                return ModelResponse([ToolCallPart(PLAIN, {})])
            case 1:
                return ModelResponse([ToolCallPart(GATED, {"text": "hello"})])
            case 2:
                handle = handle_in(str(results[1].content))
                haft.approve()
                return ModelResponse([ToolCallPart(AWAIT, {"handle": handle})])
            case _ if "Not done yet" in str(results[-1].content):
                handle = handle_in(str(results[-1].content))
                return ModelResponse([ToolCallPart(AWAIT, {"handle": handle})])
            case _:
                return ModelResponse([TextPart(str(results[-1].content))])

    return FunctionModel(model)


async def talk(haft):
    toolset = MCPToolset(StreamableHttpTransport(haft.mcp, headers=haft.headers))
    agent = Agent(scripted(haft), toolsets=[toolset])
    result = await agent.run("go")
    assert "hello" in result.output, result.output
    haft.assert_one_effect()


with Haft() as haft:
    asyncio.run(talk(haft))
