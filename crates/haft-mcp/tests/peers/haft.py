"""A real `haft serve` with a mounted server behind it, for clients that other people wrote.

`sandbox_describe` is a tool that may run. `peer_echo` is the mounted server's, so it asks; how
often it ran is counted where it runs. `peer_ask` asks the person behind its caller.
"""

import json
import os
import re
import subprocess
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

KEY = "peers-key"
PLAIN, GATED, AWAIT = "sandbox_describe", "peer_echo", "await_call"
PATIENCE = 180
"""How many seconds to wait for a state before a peer fails."""
PEER = Path(os.environ.get("HAFT_PEER", Path(__file__).parents[1] / "it/peer.py"))


class Haft:
    def __init__(self):
        self._directory = tempfile.TemporaryDirectory()
        self.here = Path(self._directory.name)
        self._counter = self.here / "counter"
        self._servers = {}

    def mount(self, **servers):
        """Mounts servers by their commands, beside the peer."""
        self._servers = servers

    def configured(self):
        """Writes the configuration that mounts them."""
        config = self.here / "haft.toml"
        config.write_text(
            f'[mcp.servers.peer]\ncommand = ["python3", "{PEER}"]\n'
            f'env = {{ COUNTER = "{self._counter}" }}\n'
            + "".join(
                f"[mcp.servers.{name}]\ncommand = {json.dumps(list(map(str, command)))}\n"
                for name, command in self._servers.items()
            )
        )
        return config

    def __enter__(self):
        here, config = self.here, self.configured()
        command = [os.environ["HAFT"], "serve", "--listen", "127.0.0.1:0", "--mcp-patience", "1s"]
        command += ["--data", str(here / "data"), "--config", str(config)]
        self._server = subprocess.Popen(
            # The kernel kills the server when this process ends, however it ends.
            ["setpriv", "--pdeathsig", "KILL", *command],
            env={**os.environ, "HAFT_API_KEY": KEY},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        said = (line.split() for line in self._server.stdout)
        self.mcp = next(words[1] for words in said if words[:1] == ["mcp"])
        self._until(lambda: all(s["tools"] for s in self.ask("mcp/servers")["data"]))
        return self

    def __exit__(self, *_):
        self._server.terminate()
        self._server.wait(timeout=PATIENCE)
        self._directory.cleanup()

    @property
    def headers(self):
        return {"Authorization": f"Bearer {KEY}"}

    def ask(self, path, body=None):
        url = self.mcp.removesuffix("/mcp") + "/haft/v1/" + path
        data = None if body is None else json.dumps(body).encode()
        headers = {"x-api-key": KEY, "content-type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(url, data, headers)) as answer:
            return json.load(answer)

    def _until(self, find):
        deadline = time.monotonic() + PATIENCE
        while not (found := find()):
            assert time.monotonic() < deadline, "it did not come to that"
            time.sleep(0.05)
        return found

    def approve(self):
        """Approves what waits, as somebody else than the client would."""
        waits = self._until(lambda: self.ask("pending")["data"])
        assert len(waits) == 1, waits
        wait = waits[0]
        path = f"sessions/{wait['session']}/calls/{wait['call']}/resolve"
        self.ask(path, {"type": "approve"})

    def approve_soon(self):
        thread = threading.Thread(target=self.approve)
        thread.start()
        return thread

    def effects(self):
        return self._counter.read_text().split() if self._counter.exists() else []

    def assert_one_effect(self):
        assert self.effects() == ["echo"], self.effects()


async def awaited(call, handle):
    """Awaits the call behind a handle. A result that takes longer than the server's patience is
    answered with the handle again."""
    deadline = time.monotonic() + PATIENCE
    while "Not done yet" in str(result := await call(AWAIT, {"handle": handle})):
        assert time.monotonic() < deadline, result
    return result


def handle_in(text):
    """The handle that a call was answered with because it waits."""
    found = re.search(r"sesn_\w+\.call_\w+", text)
    assert found, text
    return found.group()
