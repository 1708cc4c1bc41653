"""Memory stores that are attached to a session: what its agent reads and writes there."""

import hashlib

import anthropic
import pytest

from test_conversations import TOOLSET, say


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def test_an_agent_remembers_in_an_attached_memory_store(
    client, provider, open_session, until_idle
):
    stores = client.beta.memory_stores
    store = stores.create(name="notes", description="What users like.")
    memories = stores.memories
    old = memories.create(store.id, path="/ann.md", content="tea")
    attached = {
        "type": "memory_store",
        "memory_store_id": store.id,
        "instructions": "One file for each person.",
    }
    session = open_session([TOOLSET], resources=[attached])
    found = session.resources[0]
    assert (found.type, found.name, found.access) == ("memory_store", "notes", "read_write")
    wrong, seen = {"content_sha256": sha256("milk")}, {"content_sha256": sha256("tea")}
    change = {"path": "/ann.md", "content": "coffee"}
    provider.will_answer(
        [{"tool": "memory_store_list", "input": {}}],
        [{"tool": "memory_store_read", "input": {"path": "/ann.md"}}],
        [{"tool": "memory_store_write", "input": change}],
        [{"tool": "memory_store_write", "input": {**change, **wrong}}],
        [{"tool": "memory_store_write", "input": {**change, **seen}}],
        [{"tool": "memory_store_write", "input": {"path": "/bob.md", "content": "water"}}],
        [{"text": "done"}],
    )
    events = until_idle(session, [say("remember")])
    results = [event for event in events if event.type == "agent.tool_result"]
    texts = [result.content[0].text for result in results]
    assert "/ann.md" in texts[0] and sha256("tea") in texts[1]
    assert [bool(result.is_error) for result in results] == [False, False, True, True, False, False]
    assert "read it" in texts[2] and "changed since" in texts[3]
    prompt = str(provider.requests[0]["system"])
    assert "What users like." in prompt and "One file for each person." in prompt
    kept = {memory.path: memory.content for memory in memories.list(store.id, view="full")}
    assert kept == {"/ann.md": "coffee", "/bob.md": "water"}
    version = next(iter(stores.memory_versions.list(store.id, memory_id=old.id)))
    assert version.created_by.type == "service_account_actor"


def test_a_memory_store_may_be_attached_to_be_read_only(
    client, provider, open_session, until_idle
):
    store = client.beta.memory_stores.create(name="rules")
    client.beta.memory_stores.memories.create(store.id, path="/a", content="be kind")
    attached = {"type": "memory_store", "memory_store_id": store.id, "access": "read_only"}
    session = open_session([TOOLSET], resources=[attached])
    provider.will_answer(
        [{"tool": "memory_store_read", "input": {"path": "/a"}}],
        [{"tool": "memory_store_write", "input": {"path": "/b", "content": "x"}}],
        [{"text": "done"}],
    )
    events = until_idle(session, [say("go")])
    results = [event for event in events if event.type == "agent.tool_result"]
    assert "be kind" in results[0].content[0].text
    offered = [tool["name"] for tool in provider.requests[0]["tools"]]
    assert "memory_store_read" in offered and "memory_store_write" not in offered
    stored = client.beta.memory_stores.memories.list(store.id)
    assert [memory.path for memory in stored] == ["/a"]
    with pytest.raises(anthropic.NotFoundError):
        open_session([TOOLSET], resources=[{**attached, "memory_store_id": "memstore_x"}])
    with pytest.raises(anthropic.BadRequestError, match="two resources"):
        open_session([TOOLSET], resources=[attached, attached])
