"""The official Anthropic SDK, unmodified, against a real `haft serve`."""

import anthropic
import pytest

TOOLSET = {"type": "agent_toolset_20260401"}
ASKING = {**TOOLSET, "default_config": {"permission_policy": {"type": "always_ask"}}}


def say(text):
    return {"type": "user.message", "content": [{"type": "text", "text": text}]}


def confirm(event_id, result, **more):
    return {"type": "user.tool_confirmation", "tool_use_id": event_id, "result": result, **more}


def types(events):
    return [event.type for event in events]


def the(events, kind):
    found = [event for event in events if event.type == kind]
    assert len(found) == 1, types(events)
    return found[0]


def test_an_agent_uses_tools_and_answers(client, provider, open_session, until_idle):
    session = open_session([TOOLSET])
    provider.will_answer(
        [
            {"text": "I write it."},
            {"tool": "write", "input": {"file_path": "/workspace/a.txt", "content": "hello\n"}},
        ],
        [{"tool": "bash", "input": {"command": "cat a.txt; echo from $PWD"}}],
        [{"text": "It says hello."}],
    )
    events = until_idle(session, [say("write and look")])
    assert [kind for kind in types(events) if not kind.startswith("span.")] == [
        "user.message",
        "session.status_running",
        "agent.message",
        "agent.tool_use",
        "agent.tool_result",
        "agent.tool_use",
        "agent.tool_result",
        "agent.message",
        "session.status_idle",
    ]
    uses = [event for event in events if event.type == "agent.tool_use"]
    results = [event for event in events if event.type == "agent.tool_result"]
    assert [use.name for use in uses] == ["write", "bash"]
    assert [use.evaluated_permission for use in uses] == ["allow", "allow"]
    assert [result.tool_use_id for result in results] == [use.id for use in uses]
    assert "hello\nfrom /workspace" in results[1].content[0].text
    assert events[-3].content[0].text == "It says hello."
    # The model is offered the toolset under its own names, and reads what came out.
    offered = {tool["name"] for tool in provider.requests[0]["tools"]}
    assert offered == {"bash", "edit", "read", "write", "glob", "grep"}
    assert "hello" in str(provider.requests[2]["messages"][-1])
    assert client.beta.sessions.retrieve(session.id).status == "idle"


def test_what_was_streamed_is_what_is_listed(client, provider, open_session, until_idle):
    session = open_session([TOOLSET])
    provider.will_answer(
        [{"tool": "bash", "input": {"command": "echo 1"}}], [{"text": "one"}]
    )
    streamed = until_idle(session, [say("go")])
    listed = list(client.beta.sessions.events.list(session.id, limit=2))
    assert [event.id for event in listed] == [event.id for event in streamed]
    assert [event.to_dict() for event in listed] == [event.to_dict() for event in streamed]
    backwards = list(client.beta.sessions.events.list(session.id, limit=3, order="desc"))
    assert [event.id for event in backwards] == [event.id for event in reversed(listed)]
    messages = client.beta.sessions.events.list(session.id, types=["agent.message"])
    assert [event.content[0].text for event in messages] == ["one"]


def test_a_call_that_asks_runs_when_it_is_allowed(provider, open_session, until_idle):
    session = open_session([ASKING])
    provider.will_answer(
        [{"tool": "bash", "input": {"command": "echo ran"}}], [{"text": "done"}]
    )
    asked = until_idle(session, [say("go")], reason="requires_action")
    use = the(asked, "agent.tool_use")
    assert use.evaluated_permission == "ask"
    assert asked[-1].stop_reason.event_ids == [use.id]
    assert "agent.tool_result" not in types(asked)
    events = until_idle(session, [confirm(use.id, "allow")])
    assert types(events)[:2] == ["user.tool_confirmation", "session.status_running"]
    assert "ran" in the(events, "agent.tool_result").content[0].text


def test_a_denied_call_tells_the_model_why(provider, open_session, until_idle):
    session = open_session([ASKING])
    provider.will_answer(
        [{"tool": "bash", "input": {"command": "rm -rf /"}}], [{"text": "I will not."}]
    )
    asked = until_idle(session, [say("go")], reason="requires_action")
    use = the(asked, "agent.tool_use")
    events = until_idle(session, [confirm(use.id, "deny", deny_message="never in production")])
    result = the(events, "agent.tool_result")
    assert result.is_error and "never in production" in result.content[0].text
    assert "never in production" in str(provider.requests[1]["messages"][-1])
    assert the(events, "user.tool_confirmation").deny_message == "never in production"


def test_several_waits_are_resolved_one_by_one(provider, open_session, until_idle):
    session = open_session([ASKING])
    provider.will_answer(
        [
            {"tool": "bash", "input": {"command": "echo one"}},
            {"tool": "write", "input": {"file_path": "two.txt", "content": "two"}},
        ],
        [{"text": "done"}],
    )
    asked = until_idle(session, [say("go")], reason="requires_action")
    one, two = [event for event in asked if event.type == "agent.tool_use"]
    assert asked[-1].stop_reason.event_ids == [one.id, two.id]
    after = until_idle(session, [confirm(one.id, "allow")], reason="requires_action")
    assert after[-1].stop_reason.event_ids == [two.id]
    assert the(after, "agent.tool_result").tool_use_id == one.id
    events = until_idle(session, [confirm(two.id, "deny")])
    assert the(events, "agent.tool_result").is_error


def test_a_mixed_batch_runs_what_may_and_asks_for_the_rest(provider, open_session, until_idle):
    session = open_session(
        [
            {
                **TOOLSET,
                "configs": [
                    {"name": "bash", "permission_policy": {"type": "always_ask"}},
                    {"name": "grep", "enabled": False},
                ],
            }
        ]
    )
    provider.will_answer(
        [
            {"tool": "write", "input": {"file_path": "x", "content": "x"}},
            {"tool": "bash", "input": {"command": "cat x"}},
        ],
        [{"text": "done"}],
    )
    asked = until_idle(session, [say("go")], reason="requires_action")
    permissions = [e.evaluated_permission for e in asked if e.type == "agent.tool_use"]
    assert permissions == ["allow", "ask"]
    until_idle(session, [confirm(asked[-1].stop_reason.event_ids[0], "allow")])
    assert "grep" not in {tool["name"] for tool in provider.requests[0]["tools"]}


def test_a_custom_tool_is_run_by_the_client(provider, open_session, until_idle):
    weather = {
        "type": "custom",
        "name": "getWeather",
        "description": "The weather in a city.",
        "input_schema": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    }
    session = open_session([TOOLSET, weather])
    provider.will_answer(
        [{"tool": "getWeather", "input": {"city": "Bern"}}], [{"text": "It rains."}]
    )
    asked = until_idle(session, [say("weather?")], reason="requires_action")
    use = the(asked, "agent.custom_tool_use")
    assert (use.name, use.input) == ("getWeather", {"city": "Bern"})
    result = {
        "type": "user.custom_tool_result",
        "custom_tool_use_id": use.id,
        "content": [{"type": "text", "text": "rain, 9 degrees"}],
    }
    events = until_idle(session, [result])
    assert types(events)[0] == "user.custom_tool_result"
    assert "rain, 9 degrees" in str(provider.requests[1]["messages"][-1])


def test_an_interrupt_frees_a_session_that_waits(client, provider, open_session, until_idle):
    session = open_session([ASKING])
    provider.will_answer([{"tool": "bash", "input": {"command": "echo x"}}], [{"text": "ok"}])
    asked = until_idle(session, [say("go")], reason="requires_action")
    events = until_idle(session, [{"type": "user.interrupt"}])
    assert types(events)[0] == "user.interrupt"
    assert the(events, "agent.tool_result").is_error
    with pytest.raises(anthropic.BadRequestError, match="not waiting"):
        client.beta.sessions.events.send(
            session.id, events=[confirm(the(asked, "agent.tool_use").id, "allow")]
        )
    events = until_idle(session, [say("and now?")])
    assert the(events, "agent.message").content[0].text == "ok"


def test_what_is_missing_foreign_or_unsupported_raises_the_sdks_exceptions(
    client, base_url, environment
):
    with pytest.raises(anthropic.NotFoundError) as missing:
        client.beta.sessions.retrieve("sesn_00000000000000000000000000")
    assert missing.value.body["error"]["type"] == "not_found_error"
    assert missing.value.request_id.startswith("req_")
    with pytest.raises(anthropic.AuthenticationError):
        anthropic.Anthropic(base_url=base_url, api_key="wrong").beta.agents.list()
    with pytest.raises(anthropic.BadRequestError, match="mcp_servers"):
        client.beta.agents.create(
            name="x",
            model="claude-opus-5-5",
            tools=[{"type": "mcp_toolset", "mcp_server_name": "x"}],
        )
    with pytest.raises(anthropic.BadRequestError, match="llama"):
        client.beta.agents.create(name="x", model="llama")
    with pytest.raises(anthropic.BadRequestError, match="allowed_hosts"):
        networking = {"type": "limited", "allowed_hosts": ["https://example.org/"]}
        config = {"type": "cloud", "networking": networking}
        client.beta.environments.create(name="x", config=config)
    networking = {"type": "limited", "allowed_hosts": ["example.org", "*.example.org:8443"]}
    config = {"type": "cloud", "networking": networking}
    limited = client.beta.environments.create(name="x", config=config)
    assert limited.config.networking.allowed_hosts == ["example.org", "*.example.org:8443"]
    agent = client.beta.agents.create(name="x", model="claude-opus-5-5")
    client.beta.agents.archive(agent.id)
    with pytest.raises(anthropic.BadRequestError, match="archived"):
        client.beta.sessions.create(agent=agent.id, environment_id=environment.id)


def test_agents_have_versions_and_sessions_pin_them(client, environment):
    agent = client.beta.agents.create(name="one", model="claude-opus-5-5", metadata={"a": "1"})
    assert (agent.version, agent.type) == (1, "agent")
    pinned = client.beta.sessions.create(agent=agent.id, environment_id=environment.id)
    changed = client.beta.agents.update(agent.id, version=1, name="two", metadata={"b": "2"})
    assert (changed.version, changed.name) == (2, "two")
    assert changed.metadata == {"a": "1", "b": "2"}
    with pytest.raises(anthropic.ConflictError):
        client.beta.agents.update(agent.id, version=1, name="three")
    assert client.beta.agents.retrieve(agent.id, version=1).name == "one"
    assert client.beta.agents.retrieve(agent.id).name == "two"
    versions = [version.version for version in client.beta.agents.versions.list(agent.id)]
    assert versions == [2, 1]
    session = client.beta.sessions.retrieve(pinned.id)
    assert (session.agent.version, session.agent.name) == (1, "one")
    assert session.id in [found.id for found in client.beta.sessions.list(agent_id=agent.id)]
    assert agent.id in [found.id for found in client.beta.agents.list(limit=1)]
