"""Checks a worker in any language against the worker protocol, through a real server.

``python -m haft.conformance "node conform.mjs"`` starts a server and the command, which must be a
worker with the tools that docs/reference/worker-protocol.md lists under "Conformance". It prints a
line for each rule, and exits with 1 if one is broken.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ._client import Call
from .testing import Node

TOOLS = ("ask", "charge", "echo", "fail", "flaky", "slow", "unknown")


class Suite:
    """A server, the worker under test, and the rules."""

    def __init__(self, command: str) -> None:
        self.command = shlex.split(command)
        self.node = Node()
        self.place = Path(tempfile.mkdtemp(prefix="haft-conform-"))
        self.process: subprocess.Popen[bytes] | None = None

    def start_worker(self) -> None:
        """Starts the worker under test."""
        environment = {
            **os.environ,
            "HAFT_URL": self.node.url,
            "HAFT_API_KEY": self.node.key,
            "HAFT_WORKER": "conform",
        }
        self.process = subprocess.Popen(self.command, env=environment, stdout=subprocess.DEVNULL)

    def run(self) -> list[str]:
        """Runs every rule, and returns what is wrong."""
        wrong: list[str] = []
        with self.node:
            self.start_worker()
            try:
                eventually("the worker registers its tools", self._is_registered)
                for rule in (
                    self.arguments_and_context_arrive,
                    self.errors_have_their_class,
                    self.an_unknown_effect_is_in_doubt,
                    self.every_attempt_has_the_same_key,
                    self.a_preview_is_shown_before_approval,
                    self.progress_and_cancel_reach,
                    self.a_death_inside_the_effect_is_verified,
                    self.the_worker_comes_back_to_a_server_that_was_killed,
                    self.the_worker_finishes_before_it_stops,
                ):
                    name = rule.__name__.replace("_", " ")
                    try:
                        rule()
                        print(f"ok      {name}", flush=True)
                    except Exception as error:  # noqa: BLE001 - each rule is told
                        print(f"broken  {name}: {error}", flush=True)
                        wrong.append(f"{name}: {error}")
            finally:
                if self.process is not None:
                    self.process.kill()
                    self.process.wait()
        return wrong

    def _is_registered(self) -> bool:
        known = {tool["name"] for tool in self.node.client.tools()}
        return {f"conform_{name}" for name in TOOLS} <= known

    def arguments_and_context_arrive(self) -> None:
        sent = {"text": "äöü ☃", "list": [1, 2.5, None, True], "nested": {"a": {}}}
        call = self.node.client.call("conform_echo", {"value": sent})
        expected = {"value": sent, "key": call.call, "attempt": 1, "tenant": "default", "user": "admin"}
        expect(call.value, expected)

    def errors_have_their_class(self) -> None:
        call = self.node.client.call("conform_fail")
        error = call.error or {}
        expect((error.get("class"), error.get("message")), ("upstream", "it failed"))

    def an_unknown_effect_is_in_doubt(self) -> None:
        call = self.node.client.call("conform_unknown")
        expect(call.state, "in_doubt")
        self.node.client.settle(call, "give_up")

    def every_attempt_has_the_same_key(self) -> None:
        call = self.node.client.call("conform_flaky")
        expect(call.value, {"key": call.call, "attempt": 2})

    def a_preview_is_shown_before_approval(self) -> None:
        call = self.node.client.call("conform_ask")
        expect(call.state, "waiting")
        wait = next(wait for wait in self.node.client.pending() if wait["call"] == call.call)
        expect(wait["preview"]["diff"], "shown")
        self.node.client.approve(call)
        expect(self.node.client.wait(call).value, "asked")

    def progress_and_cancel_reach(self) -> None:
        call, made = self._begun("conform_slow", {"ms": 60_000})
        self.node.client.cancel(call)
        made.join(20)
        ended = self.node.client.wait(call, 20)
        expect((ended.error or {}).get("class"), "cancelled")

    def a_death_inside_the_effect_is_verified(self) -> None:
        book = self.place / "book"
        Path(f"{book}.die").touch()
        call, made = self._begun("conform_charge", {"path": str(book)}, is_started=book.exists)
        if self.process is not None:
            self.process.wait(20)
        self.start_worker()
        made.join(60)
        expect(self.node.client.wait(call).value, {"key": call.call})
        expect(book.read_text(), f"{call.call}\n")

    def the_worker_comes_back_to_a_server_that_was_killed(self) -> None:
        self.node.kill()
        self.node.start()
        expect(self.node.client.call("conform_echo", {"value": 1}).ok, True)

    def the_worker_finishes_before_it_stops(self) -> None:
        call, made = self._begun("conform_slow", {"ms": 1500})
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(30)
        made.join(20)
        expect(self.node.client.wait(call, 20).value, "slept")

    def _begun(
        self, tool: str, arguments: dict[str, Any], is_started: Callable[[], bool] | None = None
    ) -> tuple[Call, threading.Thread]:
        """Makes a call in a thread, and waits until it has started."""
        before = {row["id"] for row in self.node.client.request("GET", "/haft/v1/sessions")["data"]}
        made = threading.Thread(target=lambda: self.node.client.call(tool, arguments), daemon=True)
        made.start()
        found: list[Call] = []

        def started() -> bool:
            for row in self.node.client.request("GET", "/haft/v1/sessions")["data"]:
                if row["id"] in before:
                    continue
                path = f"/haft/v1/sessions/{row['id']}/events?limit=1000"
                for entry in self.node.client.request("GET", path)["data"]:
                    if entry["event"]["type"] == "call.started":
                        found.append(Call(row["id"], entry["event"]["call"], "waiting"))
                        return is_started is None or is_started()
            return False

        eventually("the call starts", started)
        return found[-1], made


def expect(found: Any, expected: Any) -> None:
    """Fails unless two values are equal."""
    if found != expected:
        raise AssertionError(f"expected {expected!r}, found {found!r}")


def eventually(what: str, check: Callable[[], bool], seconds: float = 30) -> None:
    """Waits for a state."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if check():
            return
        time.sleep(0.05)
    raise AssertionError(f"expected that {what}")


def main() -> int:
    """Runs the suite for the command that argv names."""
    if len(sys.argv) != 2:
        print('usage: python -m haft.conformance "COMMAND OF THE WORKER"', file=sys.stderr)
        return 2
    return 1 if Suite(sys.argv[1]).run() else 0


if __name__ == "__main__":
    sys.exit(main())
