"""FastMCP's client."""

import asyncio

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

from haft import AWAIT, GATED, PLAIN, Haft, awaited, handle_in


async def talk(haft):
    async with Client(StreamableHttpTransport(haft.mcp, headers=haft.headers)) as client:
        names = {tool.name for tool in await client.list_tools()}
        assert {PLAIN, GATED, AWAIT} <= names, names
        await client.call_tool(PLAIN, {})
        waits = await client.call_tool(GATED, {"text": "hello"})
        handle = handle_in(waits.content[0].text)
        await asyncio.to_thread(haft.approve)
        result = await awaited(client.call_tool, handle)
        assert result.content[0].text == "hello", result
        haft.assert_one_effect()


with Haft() as haft:
    asyncio.run(talk(haft))
