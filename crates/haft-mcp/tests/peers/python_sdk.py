"""The official Python SDK, current revision: a plain call, and a handle that is awaited."""

import asyncio

import mcp
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult
from mcp.shared._httpx_utils import create_mcp_http_client

from haft import AWAIT, GATED, PLAIN, Haft, awaited, handle_in


async def answered(_context, params):
    assert params.message == "Which colour?", params
    return ElicitResult(action="accept", content={"colour": "red"})


async def talk(haft):
    http = create_mcp_http_client(headers=haft.headers)
    transport = streamable_http_client(haft.mcp, http_client=http)
    async with mcp.Client(transport, elicitation_callback=answered) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {PLAIN, GATED, AWAIT} <= names, names
        assert not (await client.call_tool(PLAIN, {})).is_error
        waits = await client.call_tool(GATED, {"text": "hello"})
        handle = handle_in(waits.content[0].text)
        await asyncio.to_thread(haft.approve)
        result = await awaited(client.call_tool, handle)
        assert result.content[0].text == "hello", result
        haft.assert_one_effect()


with Haft() as haft:
    asyncio.run(talk(haft))
