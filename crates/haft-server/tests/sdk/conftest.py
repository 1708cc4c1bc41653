"""A real `haft serve`, whose model is a local fake of the provider's HTTP API."""

import os
import subprocess
import time
from contextlib import contextmanager

import anthropic
import pytest

from fake_provider import FakeProvider

KEY = "test-admin-key"
PATIENCE = 180
"""How many seconds to wait for a state before a test fails. No test passes by how long it takes."""


@pytest.fixture(scope="session")
def provider():
    fake = FakeProvider()
    yield fake
    fake.close()


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("haft")


@pytest.fixture(scope="session")
def keys(data):
    """Keys of people that are no admins, made before the server has the store."""
    scopes = {"ann": ["read", "write"], "bob": ["read", "write"], "approver": ["read", "approve"]}
    made = {}
    for name, held in scopes.items():
        options = [f"--scope={scope}" for scope in held]
        command = [os.environ["HAFT"], "keys", "create", "--data", str(data), "--actor", name]
        made[name] = subprocess.check_output(command + options, text=True).strip()
    return made


def until(find, what="it"):
    """Calls `find` until it returns something, and returns that."""
    deadline = time.monotonic() + PATIENCE
    while not (found := find()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)
    return found


@contextmanager
def started(command, **options):
    """A process that ends with the block, and with this process even if that is killed."""
    # The kernel sends the signal when the parent ends.
    command = ["setpriv", "--pdeathsig", "KILL", *command]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def api_of(server):
    """Reads where a server that has just been started answers."""
    said = (line.split() for line in server.stdout)
    api = next((words[1] for words in said if words[:1] == ["api"]), None)
    assert api, f"haft serve ended with {server.wait()}"
    return api.removesuffix("/v1")


@contextmanager
def serving(provider, data, *options):
    environment = {
        **os.environ,
        "HAFT_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": provider.url,
        "ANTHROPIC_API_KEY": "fake",
    }
    command = [os.environ["HAFT"], "serve", "--listen", "127.0.0.1:0", "--data", str(data), "--mcp-allow-private"]
    with started(command + list(options), env=environment) as server:
        yield api_of(server)
        server.terminate()
        assert server.wait(timeout=PATIENCE) == 0


@pytest.fixture(scope="session")
def base_url(provider, data, keys):
    with serving(provider, data) as url:
        yield url


@pytest.fixture
def impatient(provider, tmp_path):
    """A client of a server on which nothing waits for long."""
    with serving(provider, tmp_path, "--suspend-ttl", "1s") as url:
        yield anthropic.Anthropic(base_url=url, api_key=KEY)


@pytest.fixture(scope="session")
def key():
    return KEY


@pytest.fixture
def client(base_url):
    return anthropic.Anthropic(base_url=base_url, api_key=KEY)


@pytest.fixture
def environment(client):
    return client.beta.environments.create(name="test")


@pytest.fixture
def open_session(client, environment):
    def open_session(tools, **more):
        agent = client.beta.agents.create(name="test", model="claude-opus-5-5", tools=tools)
        return client.beta.sessions.create(
            agent=agent.id, environment_id=environment.id, **more
        )

    return open_session


@pytest.fixture
def until_idle(client):
    """Follows a session until it is idle for a reason of this type; returns what happened."""

    def until_idle(session, send, reason="end_turn"):
        seen = []
        deadline = time.monotonic() + PATIENCE
        with client.beta.sessions.events.stream(session.id) as stream:
            client.beta.sessions.events.send(session.id, events=send)
            for event in stream:
                seen.append(event)
                if event.type == "session.status_idle" and event.stop_reason.type == reason:
                    return seen
                assert time.monotonic() < deadline, [event.type for event in seen]
        raise AssertionError(f"the stream ended: {[event.type for event in seen]}")

    return until_idle
