"""Worker and server killed at every boundary of a call: the effect is counted outside.

The short form runs in CI; ``HAFT_KILLS=200`` repeats each case so often.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import haft
from haft.testing import Node

HERE = Path(__file__).parent
ROUNDS = int(os.environ.get("HAFT_KILLS", "1"))
TOOLS = ["plain", "keyed", "verified"]


class Desk:
    """A worker in a process of its own, restarted like an operator's supervisor would."""

    def __init__(self, node: Node, place: Path, **boundary: str) -> None:
        self.place = place
        self.environment = {
            **os.environ,
            "DESK": str(place),
            "HAFT_URL": node.url,
            "HAFT_API_KEY": node.key,
            "HAFT_WORKER": "desk",
            "PYTHONPATH": str(HERE.parent / "src"),
            **boundary,
        }
        self.process = self.started()

    def started(self) -> subprocess.Popen[bytes]:
        log = (self.place / "desk.log").open("ab")
        return subprocess.Popen([sys.executable, str(HERE / "desk.py")], env=self.environment, stdout=log, stderr=log)

    def restart(self) -> None:
        self.process.wait(30)
        self.process = self.started()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def eventually(check: Callable[[], Any], seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := check():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come to that")


def begun(node: Node, tool: str) -> None:
    """Makes a call whose answer nobody waits for."""

    def call() -> None:
        try:
            node.client.call(tool, {"cents": 5}, idempotency_key=f"{tool}-{time.monotonic_ns()}")
        except Exception:  # noqa: BLE001 - the server is killed meanwhile
            pass

    threading.Thread(target=call, daemon=True).start()


def the_call(place: Path) -> haft.Call:
    session, call = eventually(lambda: (place / "at").exists() and (place / "at").read_text()).split()
    return haft.Call(session, call, "waiting")


def effects(place: Path) -> int:
    path = place / "effects"
    return len(path.read_text().splitlines()) if path.exists() else 0


def end_of(node: Node, call: haft.Call) -> str:
    """Waits until the call is over, or in doubt."""

    def look() -> str | None:
        try:
            stage = node.client.get(call)["stage"]
            if stage == "settled":
                return "done"
            waits = [wait for wait in node.client.pending() if wait["call"] == call.call]
        except Exception:  # noqa: BLE001 - it may be starting
            return None
        return "in_doubt" if waits and waits[0]["kind"] == "settlement" else None

    return str(eventually(look))


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("at", ["before_effect", "after_effect", "before_done", "after_done"])
def test_the_worker_is_killed(at: str, tool: str, database_url: str | None, tmp_path: Path) -> None:
    for round in range(ROUNDS):
        place = tmp_path / str(round)
        place.mkdir()
        with Node(database_url=database_url) as node:
            desk = Desk(node, place, DIE_AT=at)
            try:
                eventually(lambda: any(t["name"] == tool for t in node.client.tools()))
                begun(node, tool)
                call = the_call(place)
                desk.restart()
                ended = end_of(node, call)
                count = effects(place)
                if at == "after_done":
                    assert (ended, count) == ("done", 1)
                elif tool == "plain":
                    # Nobody can know, and it is said so; it is never run again by itself.
                    assert (ended, count) == ("in_doubt", 0 if at == "before_effect" else 1)
                    node.client.settle(call, "happened" if count else "run_again")
                    assert end_of(node, call) == "done" and effects(place) == 1
                else:
                    assert (ended, count) == ("done", 1)
            finally:
                desk.end()


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("at", ["before_effect", "after_effect", "before_done"])
def test_the_server_is_killed_and_the_worker_goes_on(
    at: str, tool: str, database_url: str | None, tmp_path: Path
) -> None:
    for round in range(ROUNDS):
        place = tmp_path / str(round)
        place.mkdir()
        with Node(database_url=database_url) as node:
            desk = Desk(node, place, WAIT_AT=at)
            try:
                eventually(lambda: any(t["name"] == tool for t in node.client.tools()))
                begun(node, tool)
                eventually(lambda: (place / "waits").exists())
                call = the_call(place)
                node.kill()
                node.start()
                if tool == "plain":
                    assert end_of(node, call) == "in_doubt"
                (place / "go").touch()
                # The worker was alive all the time: what it says in the end settles the call.
                eventually(lambda: node.client.get(call)["stage"] == "settled")
                time.sleep(0.5)
                count = effects(place)
                assert count == 1, f"{count} effects"
            finally:
                desk.end()


def test_both_are_killed_inside_the_effect(database_url: str | None, tmp_path: Path) -> None:
    with Node(database_url=database_url) as node:
        desk = Desk(node, tmp_path, WAIT_AT="after_effect")
        try:
            eventually(lambda: any(t["name"] == "verified" for t in node.client.tools()))
            begun(node, "verified")
            eventually(lambda: (tmp_path / "waits").exists())
            call = the_call(tmp_path)
            node.kill()
            desk.end()
            node.start()
            desk.process = desk.started()
            assert end_of(node, call) == "done" and effects(tmp_path) == 1
        finally:
            desk.end()


def tells_both(place: Path) -> None:
    """Waits until the worker, at the boundary, has surely told both nodes what it is at."""
    eventually(lambda: (place / "waits").exists())
    time.sleep(6)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("at", ["before_effect", "after_effect"])
def test_a_worker_finds_another_node(at: str, tool: str, postgres_url: str, tmp_path: Path) -> None:
    with Node(database_url=postgres_url) as one, Node(database_url=postgres_url) as two:
        both = f"{one.url},{two.url}"
        desk = Desk(one, tmp_path, WAIT_AT=at, HAFT_URL=both)
        try:
            for node in (one, two):
                eventually(lambda: any(t["name"] == tool for t in node.client.tools()))
            begun(one, tool)
            tells_both(tmp_path)
            call = the_call(tmp_path)
            recorded = len(one.client.events(call))
            one.kill()
            if tool == "plain":
                # The other node takes the session over, and finds the call in doubt.
                assert end_of(two, call) == "in_doubt"
            elif tool == "keyed":
                # It runs the call again with the same key, while the first run still waits.
                assert end_of(two, call) == "done"
            else:
                # It asks nobody about a call that a worker says it is at, so it starts nothing.
                eventually(lambda: len(two.client.events(call)) > recorded)
                time.sleep(5)
                assert two.client.get(call)["stage"] != "settled"
            if tool != "keyed":
                assert effects(tmp_path) == (1 if at == "after_effect" else 0)
            (tmp_path / "go").touch()
            eventually(lambda: two.client.get(call)["stage"] == "settled")
            # The first run may still be about to take effect.
            time.sleep(1)
            assert effects(tmp_path) == 1
            assert two.client.call(tool, {"cents": 5}).ok and effects(tmp_path) == 2
        finally:
            desk.end()
