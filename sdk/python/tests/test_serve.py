"""``haft serve --worker``: one command starts the server and the worker, and ends both."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from haft.testing import Node, binary

HERE = Path(__file__).parent

SCRIPT = """
import os
import haft

@haft.tool(mode="read")
def get_pid() -> int:
    '''Returns the worker's process.'''
    return os.getpid()

haft.Worker(get_pid).run()
"""


def eventually(check: Callable[[], Any]) -> Any:
    for _ in range(600):
        if found := check():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come to that")


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and is not yet waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_the_worker_starts_with_the_server_is_restarted_and_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "desk.py"
    script.write_text(SCRIPT)
    monkeypatch.setenv("PYTHONPATH", str(HERE.parent / "src"))
    with Node("--worker", f"{sys.executable} {script}") as node:
        eventually(lambda: any(tool["name"] == "get_pid" for tool in node.client.tools()))
        first = node.client.call("get_pid").value
        assert is_alive(first)
        os.kill(first, signal.SIGKILL)
        # It is started again, and the next call waits for it.
        second = node.client.call("get_pid").value
        assert second != first and is_alive(second)
        node.stop()
        assert not is_alive(second)
        # Where no server runs, nobody can run it, and that is said.
        command = [binary(), "tools", "call", "get_pid", "--args", "{}", "--data", str(node.data)]
        told = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert told.returncode != 0 and "haft serve" in told.stderr, told


def test_a_worker_dies_with_a_server_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "desk.py"
    script.write_text(SCRIPT)
    monkeypatch.setenv("PYTHONPATH", str(HERE.parent / "src"))
    with Node("--worker", f"{sys.executable} {script}") as node:
        eventually(lambda: any(tool["name"] == "get_pid" for tool in node.client.tools()))
        pid = node.client.call("get_pid").value
        node.kill()
        eventually(lambda: not is_alive(pid))
