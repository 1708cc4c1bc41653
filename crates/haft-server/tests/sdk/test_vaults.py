"""Sessions with vaults of their own, as the official SDK opens them: whom a mounted server sees."""

import json
import os
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

import anthropic
import pytest

from conftest import KEY, PATIENCE, serving, started

PEER = Path(__file__).parents[3] / "haft-mcp/tests/it/named_peer.py"
TOKENS = Path(__file__).parents[1] / "it/token_peer.py"


@contextmanager
def listening(script, done):
    with started([sys.executable, str(script), str(done)]) as process:
        yield process.stdout.readline().strip()


@pytest.fixture
def peer(tmp_path):
    """A server that knows its callers by their tokens."""
    with listening(PEER, tmp_path / "done") as url:
        yield url


@pytest.fixture
def token_endpoint(tmp_path):
    """Whoever gives access tokens for it."""
    with listening(TOKENS, tmp_path / "asked") as url:
        yield url


@pytest.fixture
def stranger(tmp_path):
    """The key of somebody of another tenant."""
    command = [os.environ["HAFT"], "keys", "create", "--data", str(tmp_path / "data")]
    command += ["--tenant", "other", "--actor", "eve", "--scope", "read", "--scope", "write"]
    return subprocess.check_output(command, text=True).strip()


def mount(url, peer, token):
    """Mounts the server, which sees this token unless a session brings another one."""
    body = {"name": "named", "url": peer, "headers": {"Authorization": f"Bearer {token}"}}
    headers = {"x-api-key": KEY, "content-type": "application/json"}
    request = urllib.request.Request(
        f"{url}/haft/v1/mcp/servers", json.dumps(body).encode(), headers
    )
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        assert json.load(answer)["tools"]["who"] == "named_who"


def vault_with(client, peer, token):
    vault = client.beta.vaults.create(display_name="x")
    auth = {"type": "static_bearer", "token": token, "mcp_server_url": peer}
    return vault.id, client.beta.vaults.credentials.create(vault.id, auth=auth).id


def called(client, provider, session, tool):
    """Has a session's model call the server, says yes, and returns the result."""
    provider.will_answer([{"tool": tool, "input": {}}], [{"text": "done"}])
    message = {"type": "user.message", "content": [{"type": "text", "text": "go"}]}
    seen = []
    with client.beta.sessions.events.stream(session.id) as stream:
        client.beta.sessions.events.send(session.id, events=[message])
        for event in stream:
            seen.append(event)
            if event.type != "session.status_idle":
                continue
            if event.stop_reason.type != "requires_action":
                break
            yes = {
                "type": "user.tool_confirmation",
                "tool_use_id": event.stop_reason.event_ids[0],
                "result": "allow",
            }
            client.beta.sessions.events.send(session.id, events=[yes])
    assert "CANARY" not in json.dumps(provider.requests)
    assert "CANARY" not in str([event.to_dict() for event in seen])
    # What a person has to mend ends the run, and the model is not asked again.
    provider.answers.clear()
    return next(event for event in seen if event.type == "agent.mcp_tool_result")


def who(client, provider, session):
    result = called(client, provider, session, "named_who")
    assert not result.is_error, result
    return result.content[0].text


def test_a_session_is_let_in_by_its_own_vaults(provider, peer, stranger, tmp_path):
    data = tmp_path / "data"
    with serving(provider, data) as url:
        client = anthropic.Anthropic(base_url=url, api_key=KEY)
        vault, credential = vault_with(client, peer, "CANARY-node-1")
        mount(url, peer, f"vault://{vault}/{credential}")
        agent = client.beta.agents.create(
            name="x",
            model="claude-opus-5-5",
            mcp_servers=[{"type": "url", "name": "it", "url": peer}],
            tools=[{"type": "mcp_toolset", "mcp_server_name": "it"}],
        )
        environment = client.beta.environments.create(name="x")

        def opened(*vaults):
            return client.beta.sessions.create(
                agent=agent.id, environment_id=environment.id, vault_ids=list(vaults)
            )

        anns, annas = vault_with(client, peer, "CANARY-ann-1")
        bobs, _ = vault_with(client, peer, "CANARY-bob-1")
        ann, bob, nobody = opened(anns, bobs), opened(bobs), opened()
        assert (ann.vault_ids, nobody.vault_ids) == ([anns, bobs], [])
        assert client.beta.sessions.retrieve(bob.id).vault_ids == [bobs]
        assert who(client, provider, ann) == "you are ann"
        assert who(client, provider, bob) == "you are bob"
        assert who(client, provider, nobody) == "you are node"
        revealed = called(client, provider, ann, "named_reveal")
        assert revealed.content[0].text == "you have [redacted]"
        client.beta.vaults.credentials.update(
            annas, vault_id=anns, auth={"type": "static_bearer", "token": "CANARY-cat-2"}
        )
        assert who(client, provider, ann) == "you are cat"
        assert who(client, provider, bob) == "you are bob"

        eve = anthropic.Anthropic(base_url=url, api_key=stranger)
        theirs = eve.beta.vaults.create(display_name="x")
        with pytest.raises(anthropic.NotFoundError):
            opened(theirs.id)
        with pytest.raises(anthropic.NotFoundError):
            eve.beta.sessions.create(
                agent=agent.id, environment_id=environment.id, vault_ids=[anns]
            )

    with serving(provider, data) as url:
        client = anthropic.Anthropic(base_url=url, api_key=KEY)
        assert client.beta.sessions.retrieve(ann.id).vault_ids == [anns, bobs]
        assert who(client, provider, ann) == "you are cat"
        client.beta.vaults.credentials.delete(annas, vault_id=anns)
        refused = called(client, provider, ann, "named_who")
        assert refused.is_error
        assert "whoever keeps the vault" in refused.content[0].text
        assert annas in refused.content[0].text
        assert who(client, provider, bob) == "you are bob"
        assert who(client, provider, nobody) == "you are node"

    done = (tmp_path / "done").read_text().split("\n")
    assert (done.count("tools/call ann"), done.count("tools/call cat")) == (2, 2)
    kept = b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())
    assert b"CANARY" not in kept


def test_a_token_that_is_over_is_refreshed(provider, peer, token_endpoint, tmp_path):
    data = tmp_path / "data"
    with serving(provider, data, "--webhook-allow-private") as url:
        client = anthropic.Anthropic(base_url=url, api_key=KEY)
        vault, credential = vault_with(client, peer, "CANARY-node-1")
        mount(url, peer, f"vault://{vault}/{credential}")
        agent = client.beta.agents.create(
            name="x",
            model="claude-opus-5-5",
            mcp_servers=[{"type": "url", "name": "it", "url": peer}],
            tools=[{"type": "mcp_toolset", "mcp_server_name": "it"}],
        )
        environment = client.beta.environments.create(name="x")
        own = client.beta.vaults.create(display_name="x")
        made = client.beta.vaults.credentials.create(
            own.id,
            auth={
                "type": "mcp_oauth",
                "mcp_server_url": peer,
                "access_token": "CANARY-old-1",
                "expires_at": "2020-01-01T00:00:00Z",
                "refresh": {
                    "client_id": "me",
                    "refresh_token": "CANARY-refresh-ann-1",
                    "token_endpoint": token_endpoint,
                    "token_endpoint_auth": {
                        "type": "client_secret_basic",
                        "client_secret": "CANARY-secret",
                    },
                },
            },
        )
        assert made.auth.refresh.client_id == "me"
        assert made.auth.refresh.token_endpoint == token_endpoint
        assert made.auth.refresh.token_endpoint_auth.type == "client_secret_basic"
        assert "CANARY" not in str(made.to_dict())
        session = client.beta.sessions.create(
            agent=agent.id, environment_id=environment.id, vault_ids=[own.id]
        )
        assert who(client, provider, session) == "you are ann"
        validated = client.beta.vaults.credentials.mcp_oauth_validate(made.id, vault_id=own.id)
        assert (validated.type, validated.status) == ("vault_credential_validation", "valid")
        assert validated.has_refresh_token and validated.mcp_probe is None
        assert (validated.credential_id, validated.vault_id) == (made.id, own.id)
        shown = client.beta.vaults.credentials.retrieve(made.id, vault_id=own.id)
        assert shown.auth.expires_at > datetime.now(timezone.utc)
        assert "CANARY" not in str(shown.to_dict())
        client.beta.vaults.credentials.update(
            made.id,
            vault_id=own.id,
            auth={
                "type": "mcp_oauth",
                "access_token": "CANARY-cat-1",
                "refresh": {"refresh_token": "CANARY-refresh-cat-1", "scope": "read"},
            },
        )
        assert who(client, provider, session) == "you are cat"
        client.beta.vaults.credentials.update(
            made.id,
            vault_id=own.id,
            auth={
                "type": "mcp_oauth",
                "access_token": "revoked",
                "refresh": {"refresh_token": "spent-refresh-token"},
            },
        )
        refused = client.beta.vaults.credentials.mcp_oauth_validate(made.id, vault_id=own.id)
        assert (refused.status, refused.refresh.status) == ("invalid", "failed")
        assert refused.mcp_probe.method == "initialize"
        assert refused.mcp_probe.http_response.status_code == 401
        assert refused.refresh.http_response.status_code == 400
        # The endpoint may be one in the operator's network, which is not read through this server.
        assert refused.refresh.http_response.body == ""
        assert "spent-refresh-token" not in str(refused.to_dict())
    asked = [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]
    assert [one["basic"] for one in asked] == ["me:CANARY-secret"] * 2
    kept = b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())
    assert b"CANARY" not in kept
