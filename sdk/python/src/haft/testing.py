"""A real server in a temporary directory, for the tests of tools."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ._client import Client
from ._tool import Tool
from ._worker import Worker


def binary() -> str:
    """Returns the program ``haft``: from ``HAFT``, beside this Python, or from the path."""
    beside = Path(sysconfig.get_path("scripts")) / "haft"
    found = os.environ.get("HAFT") or (str(beside) if beside.exists() else shutil.which("haft"))
    if not found:
        raise FileNotFoundError("no program `haft`; install the package, or set HAFT to its path")
    return found


class Node:
    """A server that ends with the test.

    ::

        with Node() as node, node.worker(refund) as worker:
            call = node.client.call("refund", {"charge": "ch_1", "cents": 5})
    """

    def __init__(
        self, *arguments: str, data: str | Path | None = None, database_url: str | None = None
    ) -> None:
        self.key = "haft_testing_key"
        self._arguments: Sequence[str] = arguments
        self._made = tempfile.mkdtemp(prefix="haft-") if data is None else None
        self.data = Path(data if data is not None else str(self._made))
        self._database_url = database_url
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where the server is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def client(self) -> Client:
        """A client that may do everything."""
        return Client(self.url, self.key)

    @property
    def pid(self) -> int:
        """The server's process."""
        if self._process is None:
            raise RuntimeError("the node does not run")
        return self._process.pid

    def worker(self, *tools: Tool[..., Any], **options: Any) -> Worker:
        """A worker of this node, in this process."""
        return Worker(*tools, url=self.url, key=self.key, **options)

    def start(self) -> "Node":
        """Starts the server and waits until it answers."""
        command = [binary(), "serve", "--listen", f"127.0.0.1:{self.port}", "--data", str(self.data)]
        if self._database_url is not None:
            command += ["--database-url", self._database_url]
        environment = {**os.environ, "HAFT_API_KEY": self.key}
        log = open(self.data / "serve.log", "ab")  # noqa: SIM115 - the process keeps it
        self._process = subprocess.Popen(
            [*command, *self._arguments], env=environment, stdout=log, stderr=log, preexec_fn=_end_with_parent
        )
        log.close()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                    return self
            except OSError:
                time.sleep(0.02)
        said = (self.data / "serve.log").read_text(errors="replace")
        self.kill()
        raise RuntimeError(f"the server did not start:\n{said}")

    def kill(self) -> None:
        """Kills the server, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Asks the server to stop, and waits for it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def __enter__(self) -> "Node":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._made is not None:
            shutil.rmtree(self._made, ignore_errors=True)


def _end_with_parent() -> None:
    """Has the kernel end the server with the test, whatever ends that. Linux only."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
