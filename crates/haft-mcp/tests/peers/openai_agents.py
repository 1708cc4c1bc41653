"""The MCP client of the OpenAI Agents SDK."""

import asyncio

from agents.mcp import MCPServerStreamableHttp

from haft import AWAIT, GATED, PATIENCE, PLAIN, Haft, awaited, handle_in


async def talk(haft):
    params = {"url": haft.mcp, "headers": haft.headers}
    async with MCPServerStreamableHttp(params, client_session_timeout_seconds=PATIENCE) as server:
        names = {tool.name for tool in await server.list_tools()}
        assert {PLAIN, GATED, AWAIT} <= names, names
        await server.call_tool(PLAIN, {})
        waits = await server.call_tool(GATED, {"text": "hello"})
        handle = handle_in(waits.content[0].text)
        await asyncio.to_thread(haft.approve)
        result = await awaited(server.call_tool, handle)
        assert result.content[0].text == "hello", result
        haft.assert_one_effect()


with Haft() as haft:
    asyncio.run(talk(haft))
