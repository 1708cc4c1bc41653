"""Haft's tools as LangChain's, through langchain-mcp-adapters."""

import asyncio

from langchain_mcp_adapters.client import MultiServerMCPClient

from haft import AWAIT, GATED, PLAIN, Haft, awaited, handle_in


async def talk(haft):
    server = {"transport": "streamable_http", "url": haft.mcp, "headers": haft.headers}
    tools = {tool.name: tool for tool in await MultiServerMCPClient({"haft": server}).get_tools()}
    assert {PLAIN, GATED, AWAIT} <= set(tools), set(tools)
    await tools[PLAIN].ainvoke({})
    handle = handle_in(str(await tools[GATED].ainvoke({"text": "hello"})))
    await asyncio.to_thread(haft.approve)
    result = await awaited(lambda name, given: tools[name].ainvoke(given), handle)
    assert "hello" in str(result), result
    haft.assert_one_effect()


with Haft() as haft:
    asyncio.run(talk(haft))
