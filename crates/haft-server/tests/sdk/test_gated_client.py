"""A custom tool that a rule puts behind an approval, under the SDK's own tool runner."""

import asyncio

import anthropic
from anthropic import beta_async_tool

from conftest import KEY, PATIENCE, serving

RULE = """
[[rule]]
name = "payments are seen by a person"
tools = ["pay"]
verdict = "ask"
reason = "money moves"
"""

PAY = {
    "type": "custom",
    "name": "pay",
    "description": "Pays a bill.",
    "input_schema": {
        "type": "object",
        "properties": {"cents": {"type": "integer"}},
        "required": ["cents"],
    },
}


def test_the_tool_runner_runs_a_gated_tool_only_after_the_yes(provider, tmp_path):
    (tmp_path / "policy.toml").write_text(RULE)
    provider.will_answer([{"tool": "pay", "input": {"cents": 5}}], [{"text": "done"}])
    with serving(provider, tmp_path) as url:
        asyncio.run(asyncio.wait_for(approved_late(url), PATIENCE))


async def approved_late(url):
    paid = []

    @beta_async_tool
    async def pay(cents: int) -> str:
        """Pays a bill."""
        paid.append(cents)
        return "paid"

    client = anthropic.AsyncAnthropic(base_url=url, api_key=KEY)
    agent = await client.beta.agents.create(name="t", model="claude-opus-5-5", tools=[PAY])
    environment = await client.beta.environments.create(name="t")
    session = await client.beta.sessions.create(agent=agent.id, environment_id=environment.id)
    events = client.beta.sessions.events

    async def all_of(kind):
        return [event async for event in events.list(session.id) if event.type == kind]

    async def first_of(kind):
        while not (found := await all_of(kind)):
            await asyncio.sleep(0.05)
        return found[0]

    async def run():
        return [call async for call in events.tool_runner(session.id, tools=[pay], max_idle=1)]

    runner = asyncio.create_task(run())
    message = {"type": "user.message", "content": [{"type": "text", "text": "pay"}]}
    await events.send(session.id, events=[message])
    use = await first_of("agent.custom_tool_use")
    assert use.evaluated_permission == "ask"
    idle = await first_of("session.status_idle")
    assert idle.stop_reason.event_ids == [use.id]
    # Long enough for a runner that would run it; a shorter time can only let the test pass.
    await asyncio.sleep(1)
    assert paid == []
    yes = {"type": "user.tool_confirmation", "tool_use_id": use.id, "result": "allow"}
    await events.send(session.id, events=[yes])
    [call] = await runner
    assert (paid, call.confirmation) == ([5], "allow")
    [result] = await all_of("user.custom_tool_result")
    assert result.custom_tool_use_id == use.id
