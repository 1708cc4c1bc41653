"""What is kept for sessions: memory stores, vaults, files; and what is attached to one."""

import hashlib
import io

import anthropic
import pytest

from test_conversations import TOOLSET, say, the


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_memory_is_changed_only_as_it_was_seen(client):
    store = client.beta.memory_stores.create(name="Notes", description="what to remember")
    assert (store.type, store.archived_at) == ("memory_store", None)
    memories = client.beta.memory_stores.memories
    memory = memories.create(store.id, path="/notes/a.md", content="one")
    assert memory.content is None and memory.content_sha256 == sha256("one")
    seen = {"type": "content_sha256", "content_sha256": sha256("one")}
    changed = memories.update(
        memory.id, memory_store_id=store.id, content="two", precondition=seen, view="full"
    )
    assert (changed.content, changed.id) == ("two", memory.id)
    assert changed.memory_version_id != memory.memory_version_id
    with pytest.raises(anthropic.ConflictError) as stale:
        memories.update(memory.id, memory_store_id=store.id, content="x", precondition=seen)
    assert stale.value.body["error"]["type"] == "memory_precondition_failed_error"
    with pytest.raises(anthropic.ConflictError):
        memories.delete(memory.id, memory_store_id=store.id, expected_content_sha256=sha256("one"))
    assert memories.retrieve(memory.id, memory_store_id=store.id).content == "two"


def test_no_two_memories_have_one_path(client):
    store = client.beta.memory_stores.create(name="Paths")
    memories = client.beta.memory_stores.memories
    one = memories.create(store.id, path="/a", content="1")
    two = memories.create(store.id, path="/b", content="2")
    for taken in (
        lambda: memories.create(store.id, path="/a", content="3"),
        lambda: memories.update(two.id, memory_store_id=store.id, path="/a"),
    ):
        with pytest.raises(anthropic.ConflictError) as conflict:
            taken()
        assert conflict.value.body["error"]["type"] == "memory_path_conflict_error"
    memories.update(one.id, memory_store_id=store.id, path="/c")
    assert memories.create(store.id, path="/a", content="4").path == "/a"
    for path in ("a", "/a/../b", "/", "/a//b", "/a\x01"):
        with pytest.raises(anthropic.BadRequestError, match="path"):
            memories.create(store.id, path=path, content="")


def test_memories_are_listed_by_path_and_depth(client):
    store = client.beta.memory_stores.create(name="Deep")
    memories = client.beta.memory_stores.memories
    for path in ("/top", "/notes/a", "/notes/deep/b", "/notes-archive/c"):
        memories.create(store.id, path=path, content=path)
    listed = [memory.path for memory in memories.list(store.id, limit=1)]
    assert listed == ["/notes-archive/c", "/notes/a", "/notes/deep/b", "/top"]
    direct = list(memories.list(store.id, depth=1))
    assert [(item.type, item.path) for item in direct] == [
        ("memory_prefix", "/notes-archive/"),
        ("memory_prefix", "/notes/"),
        ("memory", "/top"),
    ]
    below = memories.list(store.id, path_prefix="/notes/", view="full")
    assert [memory.content for memory in below] == ["/notes/a", "/notes/deep/b"]


def test_every_change_of_a_memory_stays_as_a_version(client):
    store = client.beta.memory_stores.create(name="History")
    memories = client.beta.memory_stores.memories
    memory = memories.create(store.id, path="/a", content="one")
    memories.update(memory.id, memory_store_id=store.id, content="two")
    memories.delete(memory.id, memory_store_id=store.id)
    with pytest.raises(anthropic.NotFoundError):
        memories.retrieve(memory.id, memory_store_id=store.id)
    versions = client.beta.memory_stores.memory_versions
    history = list(versions.list(store.id, memory_id=memory.id, limit=1))
    assert [version.operation for version in history] == ["deleted", "modified", "created"]
    assert history[0].content_sha256 is None and history[0].path == "/a"
    first = versions.retrieve(history[2].id, memory_store_id=store.id)
    assert (first.content, first.created_by.type) == ("one", "user_actor")


def test_a_version_that_is_redacted_keeps_only_who_did_what_when(client, data):
    store = client.beta.memory_stores.create(name="Secrets")
    memories = client.beta.memory_stores.memories
    versions = client.beta.memory_stores.memory_versions
    memory = memories.create(store.id, path="/redact-path", content="redact-me-entirely")
    current = memory.memory_version_id
    with pytest.raises(anthropic.BadRequestError, match="change or delete the memory first"):
        versions.redact(current, memory_store_id=store.id)
    memories.update(memory.id, memory_store_id=store.id, path="/b", content="kept")
    redacted = versions.redact(current, memory_store_id=store.id)
    assert (redacted.id, redacted.operation, redacted.memory_id) == (current, "created", memory.id)
    gone = (redacted.content, redacted.path, redacted.content_sha256, redacted.content_size_bytes)
    assert gone == (None, None, None, None)
    assert redacted.created_by.type == redacted.redacted_by.type == "user_actor"
    assert redacted.redacted_at >= redacted.created_at
    assert versions.redact(current, memory_store_id=store.id) == redacted
    assert versions.retrieve(current, memory_store_id=store.id) == redacted
    assert memories.retrieve(memory.id, memory_store_id=store.id).content == "kept"
    stored = b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())
    assert b"redact-me-entirely" not in stored and b"redact-path" not in stored
    memories.delete(memory.id, memory_store_id=store.id)
    for version in list(versions.list(store.id)):
        versions.redact(version.id, memory_store_id=store.id)
    history = list(versions.list(store.id, memory_id=memory.id))
    assert [version.operation for version in history] == ["deleted", "modified", "created"]
    assert all(version.redacted_at and version.path is None for version in history)
    with pytest.raises(anthropic.NotFoundError):
        versions.redact("memver_none_1", memory_store_id=store.id)


def test_an_archived_store_takes_nothing_and_a_deleted_one_is_gone(client):
    store = client.beta.memory_stores.create(name="Old")
    assert client.beta.memory_stores.archive(store.id).archived_at is not None
    with pytest.raises(anthropic.BadRequestError, match="archived"):
        client.beta.memory_stores.memories.create(store.id, path="/a", content="")
    assert store.id not in [found.id for found in client.beta.memory_stores.list()]
    everything = client.beta.memory_stores.list(include_archived=True)
    assert store.id in [found.id for found in everything]
    client.beta.memory_stores.delete(store.id)
    with pytest.raises(anthropic.NotFoundError):
        client.beta.memory_stores.retrieve(store.id)


def test_a_secret_is_written_and_never_read(client, data):
    vault = client.beta.vaults.create(display_name="Team", metadata={"a": "1"})
    auth = {
        "type": "static_bearer",
        "token": "s3cret-of-the-vault",
        "mcp_server_url": "https://mcp.example.org/",
    }
    credentials = client.beta.vaults.credentials
    made = credentials.create(vault.id, auth=auth, display_name="one")
    assert (made.auth.type, made.vault_id) == ("static_bearer", vault.id)
    rotated = credentials.update(
        made.id, vault_id=vault.id, auth={"type": "static_bearer", "token": "another-s3cret"}
    )
    shown = [made, rotated, credentials.retrieve(made.id, vault_id=vault.id)]
    shown += list(credentials.list(vault.id))
    assert "s3cret" not in str([credential.to_dict() for credential in shown])
    kept = b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())
    assert b"s3cret-of-the-vault" not in kept and b"another-s3cret" not in kept
    with pytest.raises(anthropic.BadRequestError, match="networking"):
        credentials.create(
            vault.id,
            auth={
                "type": "environment_variable",
                "secret_name": "A",
                "secret_value": "b",
                "networking": {"type": "limited", "allowed_hosts": ["example.org"]},
            },
        )
    assert credentials.archive(made.id, vault_id=vault.id).archived_at is not None
    credentials.delete(made.id, vault_id=vault.id)
    with pytest.raises(anthropic.NotFoundError):
        credentials.retrieve(made.id, vault_id=vault.id)
    client.beta.vaults.delete(vault.id)


def test_files_come_back_as_they_were(client):
    content = bytes(range(256)) * 100
    file = client.beta.files.upload(file=("../a b.bin", io.BytesIO(content), "image/png"))
    assert (file.filename, file.size_bytes, file.mime_type) == ("a b.bin", 25600, "image/png")
    assert client.beta.files.download(file.id).read() == content
    assert client.beta.files.retrieve_metadata(file.id).id == file.id
    newer = client.beta.files.upload(file=("b.txt", b"b", "text/plain"))
    assert [found.id for found in client.beta.files.list(limit=1)][:2] == [newer.id, file.id]
    assert [found.id for found in client.beta.files.list(ids=[file.id])] == [file.id]
    client.beta.files.delete(file.id)
    with pytest.raises(anthropic.NotFoundError):
        client.beta.files.download(file.id)
    with pytest.raises(anthropic.APIStatusError) as large:
        client.beta.files.upload(file=("large", b"x" * ((32 << 20) + 1)))
    assert large.value.status_code == 413


def test_an_agent_reads_what_was_attached(client, provider, open_session, until_idle):
    one = client.beta.files.upload(file=("one.txt", b"first file\n", "text/plain"))
    two = client.beta.files.upload(file=("two.txt", b"second file\n", "text/plain"))
    attached = {"type": "file", "file_id": one.id}
    session = open_session([TOOLSET], resources=[attached])
    assert session.resources[0].mount_path == f"/mnt/session/uploads/{one.id}"
    provider.will_answer(
        [{"tool": "bash", "input": {"command": "cat /mnt/session/uploads/*"}}], [{"text": "ok"}]
    )
    events = until_idle(session, [say("read")])
    assert "first file" in the(events, "agent.tool_result").content[0].text
    resources = client.beta.sessions.resources
    added = resources.add(
        session.id, type="file", file_id=two.id, mount_path="/mnt/session/uploads/two.txt"
    )
    assert [found.file_id for found in resources.list(session.id)] == [one.id, two.id]
    provider.will_answer(
        [{"tool": "bash", "input": {"command": "cat /mnt/session/uploads/two.txt"}}],
        [{"tool": "bash", "input": {"command": "echo x >/mnt/session/uploads/two.txt; echo $?"}}],
        [{"text": "ok"}],
    )
    events = until_idle(session, [say("again")])
    results = [event for event in events if event.type == "agent.tool_result"]
    assert "second file" in results[0].content[0].text
    assert "Read-only" in results[1].content[0].text or "read-only" in results[1].content[0].text
    resources.delete(added.id, session_id=session.id)
    with pytest.raises(anthropic.NotFoundError):
        resources.retrieve(added.id, session_id=session.id)
    with pytest.raises(anthropic.BadRequestError, match="mount_path"):
        resources.add(session.id, type="file", file_id=two.id, mount_path="/etc/passwd")
    with pytest.raises(anthropic.BadRequestError, match="github_repository"):
        open_session([TOOLSET], resources=[{"type": "github_repository", "url": "x"}])


def test_a_session_is_its_own_main_thread(client, provider, open_session, until_idle):
    session = open_session([TOOLSET])
    provider.will_answer([{"text": "hi"}])
    events = until_idle(session, [say("go")])
    threads = list(client.beta.sessions.threads.list(session.id))
    assert len(threads) == 1
    main = threads[0]
    assert (main.session_id, main.parent_thread_id, main.status) == (session.id, None, "idle")
    assert main.usage.output_tokens > 0
    listed = client.beta.sessions.threads.events.list(main.id, session_id=session.id, limit=2)
    assert [event.id for event in listed] == [event.id for event in events]
    with pytest.raises(anthropic.NotFoundError):
        client.beta.sessions.threads.retrieve("sthr_00000000000000000000000000", session_id=session.id)


def test_what_this_server_does_not_do_says_so(client):
    with pytest.raises(anthropic.BadRequestError, match="dream"):
        client.beta.dreams.list()
    with pytest.raises(anthropic.BadRequestError, match="Messages API"):
        client.messages.create(model="m", max_tokens=1, messages=[])
