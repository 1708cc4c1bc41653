"""Agents that give work to others, through the official Anthropic SDK, watched at the session
only."""

import anthropic
import pytest

TOOLSET = {"type": "agent_toolset_20260401"}
ASKING = {**TOOLSET, "default_config": {"permission_policy": {"type": "always_ask"}}}
LOOKUP = {
    "type": "custom",
    "name": "lookup",
    "description": "Looks a word up.",
    "input_schema": {"type": "object", "properties": {"word": {"type": "string"}}},
}
MODEL = "claude-opus-5-5"


def say(text):
    return {"type": "user.message", "content": [{"type": "text", "text": text}]}


def give(agent, message):
    arguments = {"agent": agent, "message": message, "wait": True}
    return [{"tool": "session_delegate", "input": arguments}]


def of(events, kind):
    return [event for event in events if event.type == kind]


@pytest.fixture
def coordinated(client, environment):
    """Opens a session of an agent for which another one with these tools works."""

    def coordinated(tools):
        scout = client.beta.agents.create(
            name="Scout", description="Looks around.", model=MODEL, tools=tools
        )
        roster = {"type": "coordinator", "agents": [scout.id]}
        boss = client.beta.agents.create(
            name="Boss", model=MODEL, system="You lead.", multiagent=roster
        )
        assert boss.multiagent.agents[0].to_dict() == {
            "type": "agent", "id": scout.id, "version": 1,
        }
        assert client.beta.agents.retrieve(boss.id).multiagent == boss.multiagent
        session = client.beta.sessions.create(agent=boss.id, environment_id=environment.id)
        return session, scout

    return coordinated


def test_whoever_watches_the_session_allows_what_a_sub_agent_asks(
    client, provider, coordinated, until_idle
):
    session, scout = coordinated([ASKING])
    assert session.agent.multiagent.agents[0].name == "Scout"
    provider.will_answer(
        give("Scout", "say hello"),
        [{"tool": "bash", "input": {"command": "echo hello > said.txt; cat said.txt"}}],
        [{"text": "It said hello."}],
        [{"text": "All is done."}],
    )
    asked = until_idle(session, [say("go")], reason="requires_action")
    [created] = of(asked, "session.thread_created")
    assert created.agent_name == "Scout"
    thread = created.session_thread_id
    own, use = of(asked, "agent.tool_use")
    assert (own.name, own.session_thread_id) == ("session_delegate", None)
    assert (use.name, use.session_thread_id, use.evaluated_permission) == ("bash", thread, "ask")
    [idle] = of(asked, "session.thread_status_idle")
    assert (idle.session_thread_id, idle.agent_name) == (thread, "Scout")
    assert idle.stop_reason.event_ids == [use.id]
    assert asked[-1].stop_reason.event_ids == [use.id]
    assert client.beta.sessions.retrieve(session.id).status == "idle"

    yes = {"type": "user.tool_confirmation", "tool_use_id": use.id, "result": "allow"}
    events = until_idle(session, [yes])
    assert events[-1].stop_reason.type == "end_turn"
    [rest] = of(events, "session.thread_status_idle")
    assert rest.stop_reason.type == "end_turn"
    [result] = of(events, "agent.tool_result")
    assert result.tool_use_id == own.id
    assert result.content[0].text == "It said hello."
    assert of(events, "agent.message")[0].content[0].text == "All is done."

    listed = list(client.beta.sessions.events.list(session.id))
    assert [event.id for event in listed] == [event.id for event in asked + events]
    assert [event.to_dict() for event in listed] == [event.to_dict() for event in asked + events]
    main, child = client.beta.sessions.threads.list(session.id)
    assert (child.id, child.parent_thread_id, child.status) == (thread, main.id, "idle")
    assert (child.agent.id, child.agent.version) == (scout.id, 1)
    # The sub-agent was offered its own tools, and the coordinator those that give work away.
    offered = [{tool["name"] for tool in request["tools"]} for request in provider.requests]
    assert offered[0] == {"session_delegate", "session_run_child"}
    assert "bash" in offered[1] and "session_delegate" not in offered[1]
    assert "Scout" in str(provider.requests[0]["system"])
    archived = client.beta.sessions.threads.archive(thread, session_id=session.id)
    assert (archived.id, archived.archived_at is None) == (thread, False)
    again = client.beta.sessions.threads.archive(thread, session_id=session.id)
    assert again.archived_at == archived.archived_at
    with pytest.raises(anthropic.BadRequestError, match="archive the session"):
        client.beta.sessions.threads.archive(main.id, session_id=session.id)


def test_whoever_watches_the_session_runs_the_tools_of_a_sub_agent(
    provider, coordinated, until_idle
):
    session, _ = coordinated([LOOKUP])
    provider.will_answer(
        give("Scout", "look it up"),
        [{"tool": "lookup", "input": {"word": "haft"}}],
        [{"text": "It is a handle."}],
        [{"text": "A handle."}],
    )
    asked = until_idle(session, [say("go")], reason="requires_action")
    [use] = of(asked, "agent.custom_tool_use")
    assert (use.name, use.input) == ("lookup", {"word": "haft"})
    assert use.session_thread_id == of(asked, "session.thread_created")[0].session_thread_id
    result = {
        "type": "user.custom_tool_result",
        "custom_tool_use_id": use.id,
        "content": [{"type": "text", "text": "a handle"}],
    }
    events = until_idle(session, [result])
    assert of(events, "agent.message")[0].content[0].text == "A handle."
    assert "a handle" in str(provider.requests[2]["messages"][-1])


def test_a_roster_that_cannot_be_is_refused(client):
    def refused(agents):
        roster = {"type": "coordinator", "agents": agents}
        with pytest.raises(anthropic.APIStatusError) as error:
            client.beta.agents.create(name="Boss", model=MODEL, multiagent=roster)
        return error.value

    assert isinstance(refused(["agent_none"]), anthropic.NotFoundError)
    assert isinstance(refused([]), anthropic.BadRequestError)
    boss = client.beta.agents.create(
        name="Boss", model=MODEL, multiagent={"type": "coordinator", "agents": [{"type": "self"}]}
    )
    assert boss.multiagent.agents[0].id == boss.id
    assert "gives work to others" in refused([boss.id]).message
    assert client.beta.agents.update(boss.id, version=1, multiagent=None).multiagent is None
