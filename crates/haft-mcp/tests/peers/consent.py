"""The official Python SDK with a person who is asked, in whichever revision it speaks: where the
requester's consent approves, their yes lets a gated call run and their no keeps it from running."""

import asyncio
import importlib.metadata
import os

from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import ElicitResult

from haft import GATED, Haft

IS_MODERN = importlib.metadata.version("mcp").startswith("2.")


class Person:
    def __init__(self, approve):
        self.approve = approve
        self.asked = []

    async def answer(self, _context, params):
        self.asked.append(params.message)
        return ElicitResult(action="accept", content={"approve": self.approve})


def connected(haft, person):
    args = ["mcp", "--user", "ann", "--consent-approves", "--data", str(haft.here / "data")]
    args += ["--root", str(haft.here), "--config", str(haft.configured())]
    transport = stdio_client(StdioServerParameters(command=os.environ["HAFT"], args=args))
    return modern(transport, person) if IS_MODERN else legacy(transport, person)


def modern(transport, person):
    import mcp

    return mcp.Client(transport, elicitation_callback=person.answer)


class legacy:
    def __init__(self, transport, person):
        self._transport, self._person = transport, person

    async def __aenter__(self):
        from mcp import ClientSession

        read, write = await self._transport.__aenter__()
        self._session = ClientSession(read, write, elicitation_callback=self._person.answer)
        session = await self._session.__aenter__()
        await session.initialize()
        return session

    async def __aexit__(self, *error):
        await self._session.__aexit__(*error)
        await self._transport.__aexit__(*error)


async def called(haft, approve):
    person = Person(approve)
    async with connected(haft, person) as client:
        while GATED not in {tool.name for tool in (await client.list_tools()).tools}:
            await asyncio.sleep(0.1)
        result = await client.call_tool(GATED, {"text": "hello"})
    assert len(person.asked) == 1 and GATED in person.asked[0], person.asked
    return result


async def talk(haft):
    refused = await called(haft, approve=False)
    assert haft.effects() == [], refused
    result = await called(haft, approve=True)
    assert result.content[0].text == "hello", result
    haft.assert_one_effect()


asyncio.run(talk(Haft()))
