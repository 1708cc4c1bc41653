"""Skills: brought in versions, named by agents, read by their sessions."""

import io
import zipfile

import anthropic
import pytest

from test_conversations import TOOLSET, say

SHIP = """---
name: ship
description: How to ship a release. Use before anything is released.
---
# Ship

Run `scripts/ship.sh`; the word is %s.
"""


def files(word, more=()):
    main = ("ship/SKILL.md", (SHIP % word).encode())
    script = ("ship/scripts/ship.sh", b"echo shipped")
    return [main, script, *more]


def test_a_skill_has_versions(client):
    skills = client.beta.skills
    made = skills.create(files=files("one"), display_name="Ship it")
    assert (made.type, made.display_name, made.source.type) == ("skill", "Ship it", "custom")
    second = skills.versions.create(made.id, files=files("two"))
    assert (second.name, second.skill_id) == ("ship", made.id)
    assert second.description.startswith("How to ship")
    found = skills.retrieve(made.id)
    assert found.latest_version_id == second.id != made.latest_version_id
    listed = [version.id for version in skills.versions.list(made.id, limit=1)]
    assert listed == [second.id, made.latest_version_id]
    assert made.id in [skill.id for skill in skills.list(source="custom")]
    assert list(skills.list(source="anthropic")) == []
    gone = skills.versions.delete(second.id, skill_id=made.id)
    assert gone.type == "skill_version_deleted"
    assert skills.retrieve(made.id).latest_version_id == made.latest_version_id
    with pytest.raises(anthropic.BadRequestError, match="at least one version"):
        skills.versions.delete(made.latest_version_id, skill_id=made.id)
    assert skills.delete(made.id).type == "skill_deleted"
    with pytest.raises(anthropic.NotFoundError):
        skills.versions.retrieve(made.latest_version_id, skill_id=made.id)


def test_a_version_is_downloaded_as_it_was_brought(client):
    versions = client.beta.skills.versions
    more = [("ship/deep/er/empty", b""), ("ship/all.bin", bytes(range(256)) * 999)]
    brought = files("one", more)
    made = client.beta.skills.create(files=brought)
    archive = versions.download(made.latest_version_id, skill_id=made.id)
    assert archive.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(archive.read())) as opened:
        assert opened.testzip() is None
        found = {name: opened.read(name) for name in opened.namelist()}
    assert found == dict(brought)
    again = client.beta.skills.create(files=list(found.items()))
    assert versions.retrieve(again.latest_version_id, skill_id=again.id).name == "ship"
    with pytest.raises(anthropic.NotFoundError):
        versions.download("skillver_none", skill_id=made.id)


def test_what_is_no_skill_is_refused(client):
    skills = client.beta.skills
    refused = {
        "SKILL.md": [("ship/README.md", b"x")],
        "one directory": files("x", [("other/x", b"x")]),
        "such as": files("x", [("ship/../x", b"x")]),
        "one path": files("x", [("ship/scripts", b"x")]),
        "description": [("ship/SKILL.md", b"no front matter")],
    }
    for why, sent in refused.items():
        with pytest.raises(anthropic.BadRequestError, match=why):
            skills.create(files=sent)
    made = skills.create(files=files("one"))
    assert made.display_name == "ship"
    other = ("dock/SKILL.md", b"---\nname: dock\ndescription: d\n---\n")
    with pytest.raises(anthropic.BadRequestError, match="called `ship`"):
        skills.versions.create(made.id, files=[other])
    named = {"type": "custom", "skill_id": made.id}
    agents = client.beta.agents
    with pytest.raises(anthropic.BadRequestError, match="agent_toolset_20260401"):
        agents.create(name="a", model="claude-opus-5-5", skills=[named])
    with pytest.raises(anthropic.BadRequestError, match="two skills"):
        agents.create(name="a", model="claude-opus-5-5", tools=[TOOLSET], skills=[named, named])
    with pytest.raises(anthropic.BadRequestError, match="anthropic"):
        xlsx = {"type": "anthropic", "skill_id": "xlsx"}
        agents.create(name="a", model="claude-opus-5-5", tools=[TOOLSET], skills=[xlsx])
    with pytest.raises(anthropic.NotFoundError):
        unknown = {**named, "version": "skillver_00000000000000000000000000"}
        agents.create(name="a", model="claude-opus-5-5", tools=[TOOLSET], skills=[unknown])


# Progressive disclosure: the prompt has name and description, the files have the rest.
def test_a_session_reads_the_skills_of_its_agent(client, provider, environment, until_idle):
    skills = client.beta.skills
    made = skills.create(files=files("one"))
    agent = client.beta.agents.create(
        name="shipper",
        model="claude-opus-5-5",
        system="You ship.",
        tools=[TOOLSET],
        skills=[{"type": "custom", "skill_id": made.id}],
    )
    pinned = agent.skills[0]
    assert (pinned.type, pinned.version) == ("custom", made.latest_version_id)
    skills.versions.create(made.id, files=files("two"))
    session = client.beta.sessions.create(agent=agent.id, environment_id=environment.id)
    assert session.agent.skills[0].version == made.latest_version_id
    skills.delete(made.id)
    path = "/mnt/session/skills/ship"
    provider.will_answer(
        [{"tool": "read", "input": {"file_path": f"{path}/SKILL.md"}}],
        [{"tool": "bash", "input": {"command": f"bash {path}/scripts/ship.sh"}}],
        [{"tool": "bash", "input": {"command": f"echo x >{path}/SKILL.md; echo $?"}}],
        [{"text": "done"}],
    )
    events = until_idle(session, [say("ship it")])
    results = [event.content[0].text for event in events if event.type == "agent.tool_result"]
    assert "the word is one" in results[0]
    assert "shipped" in results[1]
    assert "ead-only" in results[2]
    prompt = str(provider.requests[0]["system"])
    assert "You ship." in prompt and f"{path}/SKILL.md" in prompt and "How to ship" in prompt
    assert "the word is" not in prompt, "the body is read when it is needed"
