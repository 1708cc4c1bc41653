"""What is told while it happens, and to whom."""

import asyncio

import anthropic
import pytest
from anthropic import beta_async_tool

from conftest import PATIENCE
from test_conversations import ASKING, TOOLSET, confirm, say, the, types


def test_what_the_model_says_is_previewed(client, provider, open_session):
    session = open_session([TOOLSET])
    provider.will_answer([{"text": "one two three"}])
    seen = []
    with client.beta.sessions.events.stream(session.id, event_deltas=["agent.message"]) as stream:
        client.beta.sessions.events.send(session.id, events=[say("count")])
        for event in stream:
            seen.append(event)
            if event.type == "session.status_idle":
                break
    message = the(seen, "agent.message")
    assert the(seen, "event_start").event.id == message.id
    deltas = [event for event in seen if event.type == "event_delta"]
    assert {delta.event_id for delta in deltas} == {message.id}
    assert "".join(delta.delta.content.text for delta in deltas) == "one two three"
    listed = types(client.beta.sessions.events.list(session.id))
    assert "event_delta" not in listed and "event_start" not in listed


def test_a_question_to_the_model_is_a_span_with_its_cost(client, provider, open_session, until_idle):
    session = open_session([TOOLSET])
    provider.will_answer([{"tool": "bash", "input": {"command": "true"}}], [{"text": "done"}])
    events = until_idle(session, [say("go")])
    starts = [event for event in events if event.type == "span.model_request_start"]
    ends = [event for event in events if event.type == "span.model_request_end"]
    assert [end.model_request_start_id for end in ends] == [start.id for start in starts]
    assert [end.model_usage.input_tokens for end in ends] == [10, 10]
    usage = client.beta.sessions.retrieve(session.id).usage
    assert usage.input_tokens == 20
    assert usage.output_tokens == sum(end.model_usage.output_tokens for end in ends)


WEATHER = {
    "type": "custom",
    "name": "get_weather",
    "description": "The weather in a city.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}


def test_the_sdks_own_runner_runs_custom_tools(base_url, key, provider, open_session):
    session = open_session([WEATHER])
    provider.will_answer(
        [
            {"tool": "get_weather", "input": {"city": "Bern"}},
            {"tool": "get_weather", "input": {"city": "Rome"}},
        ],
        [{"text": "Rain and sun."}],
    )

    @beta_async_tool
    async def get_weather(city: str) -> str:
        """The weather in a city."""
        return f"weather of {city}"

    async def run():
        client = anthropic.AsyncAnthropic(base_url=base_url, api_key=key)
        await client.beta.sessions.events.send(session.id, events=[say("weather?")])
        # `max_idle` counts from the end of the turn, so a slow machine does not end it early.
        runner = client.beta.sessions.events.tool_runner(
            session.id, tools=[get_weather], max_idle=1
        )
        return [call async for call in runner]

    calls = asyncio.run(asyncio.wait_for(run(), PATIENCE))
    assert len(calls) == 2
    asked = str(provider.requests[1]["messages"][-1])
    assert "weather of Bern" in asked and "weather of Rome" in asked


def test_an_unknown_tool_is_answered_with_the_names_that_the_model_knows(
    provider, open_session, until_idle
):
    session = open_session([TOOLSET])
    provider.will_answer([{"tool": "bahs", "input": {}}], [{"text": "sorry"}])
    events = until_idle(session, [say("go")])
    said = the(events, "agent.tool_result").content[0].text
    assert "`bash`" in said and "agent_" not in said


def test_sessions_belong_to_whoever_opened_them(client, base_url, keys, provider):
    def opened(name):
        return anthropic.Anthropic(base_url=base_url, api_key=keys[name])

    ann, bob, approver = opened("ann"), opened("bob"), opened("approver")
    agent = ann.beta.agents.create(name="a", model="claude-opus-5-5", tools=[ASKING])
    place = ann.beta.environments.create(name="e")
    session = ann.beta.sessions.create(agent=agent.id, environment_id=place.id)
    assert session.id in [found.id for found in ann.beta.sessions.list()]
    assert session.id in [found.id for found in client.beta.sessions.list()]
    assert session.id not in [found.id for found in bob.beta.sessions.list()]
    with pytest.raises(anthropic.NotFoundError):
        bob.beta.sessions.retrieve(session.id)
    with pytest.raises(anthropic.NotFoundError):
        bob.beta.sessions.events.send(session.id, events=[say("hi")])
    provider.will_answer([{"tool": "bash", "input": {"command": "echo ran"}}], [{"text": "ok"}])
    with ann.beta.sessions.events.stream(session.id) as stream:
        ann.beta.sessions.events.send(session.id, events=[say("go")])
        asked = next(event for event in stream if event.type == "session.status_idle")
        call = asked.stop_reason.event_ids[0]
        # Who starts work does not approve it, and who approves it does not start any.
        with pytest.raises(anthropic.PermissionDeniedError, match="approve"):
            ann.beta.sessions.events.send(session.id, events=[confirm(call, "allow")])
        with pytest.raises(anthropic.PermissionDeniedError):
            approver.beta.sessions.events.send(session.id, events=[say("hi")])
        approver.beta.sessions.events.send(session.id, events=[confirm(call, "allow")])
        done = next(event for event in stream if event.type == "session.status_idle")
    assert done.stop_reason.type == "end_turn"


def test_lists_begin_with_the_newest(client, environment):
    older = client.beta.agents.create(name="older", model="claude-opus-5-5")
    newer = client.beta.agents.create(name="newer", model="claude-opus-5-5")
    assert [agent.id for agent in client.beta.agents.list(limit=1)][:2] == [newer.id, older.id]


def test_a_wait_is_over_after_the_time_that_the_operator_chose(
    impatient, environment, provider
):
    agent = impatient.beta.agents.create(name="a", model="claude-opus-5-5", tools=[ASKING])
    place = impatient.beta.environments.create(name="e")
    session = impatient.beta.sessions.create(agent=agent.id, environment_id=place.id)
    provider.will_answer([{"tool": "bash", "input": {"command": "echo x"}}], [{"text": "late"}])
    with impatient.beta.sessions.events.stream(session.id) as stream:
        impatient.beta.sessions.events.send(session.id, events=[say("go")])
        for event in stream:
            if event.type == "session.status_idle" and event.stop_reason.type == "end_turn":
                break
    events = list(impatient.beta.sessions.events.list(session.id))
    assert the(events, "agent.tool_result").is_error
    assert the(events, "agent.message").content[0].text == "late"
