"""The guarantees of a tool in Python, each through a real server."""

from __future__ import annotations

import asyncio
import datetime
import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import haft
from haft.testing import Node

paid: list[str] = []
world = {"balance": 10}
running = threading.Event()
at: list[haft.Call] = []


def shown(cents: int) -> haft.Preview:
    return haft.Preview(diff=f"{cents} leave", targets=["bank"], state=world["balance"])


@haft.tool(mode="external", approve=True)
def claim_back(refund: str) -> str:
    """Claims a refund back."""
    paid.remove(refund)
    return f"{refund} is back"


@haft.tool(
    mode="external",
    approve=True,
    preview=shown,
    undo=haft.undo(claim_back, within="30m", refund=haft.result("/id")),
    cost=haft.cost("cents", "EUR"),
)
def refund(cents: int, context: haft.Context) -> dict[str, str]:
    """Refunds a charge."""
    paid.append(context.key)
    return {"id": context.key}


@haft.tool(mode="read")
async def get_slow(seconds: float, context: haft.Context) -> dict[str, Any]:
    """Waits, and says how far it is."""
    at[:] = [haft.Call(context.session, context.call, "waiting")]
    running.set()
    context.progress(object())
    context.progress(float("nan"))
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if context.cancelled:
            raise haft.Cancelled(effect="none")
        context.progress({"left": deadline - time.monotonic()})
        await asyncio.sleep(0.02)
    return {"tenant": context.tenant, "user": context.user_id, "attempt": context.attempt}


@haft.tool(mode="external", approve=False)
def lose_connection() -> str:
    """Sends something, and loses the connection."""
    raise haft.EffectUnknown("the connection broke after the request was sent")


@haft.tool(mode="external", approve=False, timeout=0.3)
def hang() -> str:
    """Takes too long, also after it was told to stop."""
    time.sleep(7)
    return "late"


attempts: list[str] = []


@haft.tool(mode="external", approve=False, key=True, retry=haft.Retry(3, backoff="10ms"))
def flaky(context: haft.Context) -> int:
    """Works the second time."""
    attempts.append(context.key)
    if context.attempt == 1:
        raise haft.ToolError("busy", error_class="upstream")
    return context.attempt


@haft.tool(mode="read")
def get_report(context: haft.Context) -> haft.ToolResult:
    """Makes a large report."""
    context.keep("report", b"x" * 300_000, "text/plain")
    return haft.ToolResult(success=True, message="made", data={"pages": 3}, nextAction="read it")


@haft.tool(mode="read")
def get_failure() -> int:
    """Fails."""
    raise ValueError("no such thing")


class Odd:
    """Nothing that JSON has."""


UNSENDABLE: dict[str, Callable[[], Any]] = {
    "an object": Odd,
    "not a number": lambda: {"rate": float("nan")},
    "half a character": lambda: "\ud800",
    "bytes": lambda: b"\xff",
    "refused, as it is too deep": lambda: json.loads("[" * 200 + "]" * 200),
    "too large": lambda: "x" * 9_000_000,
    "inside a result": lambda: haft.ToolResult(success=True, data={"x": Odd()}),
}


@haft.tool(mode="external", approve=False, timeout="60s")
def give(what: str) -> Any:
    """Does something, and gives what cannot be sent."""
    return UNSENDABLE[what]()


@haft.tool(mode="external", approve=False)
def give_dates(fails: bool, context: haft.Context) -> haft.ToolResult:
    """Gives what JSON has in other words."""
    day = {"day": datetime.date(2026, 1, 2)}
    if fails:
        raise haft.ToolError("no", partial={"odd": Odd()})
    return haft.ToolResult(success=True, data=day)


class ReadTimeout(Exception):
    """As clients of HTTP have it."""


class LateReadTimeout(ReadTimeout):
    """One of those."""


OPEN: dict[str, type[BaseException]] = {
    "timeout": TimeoutError,
    "reset": ConnectionResetError,
    "cancelled": asyncio.CancelledError,
    "client": LateReadTimeout,
}


@haft.tool(mode="external", approve=False)
async def break_off(how: str) -> str:
    """Sends something, and does not hear of it."""
    raise OPEN[how]("gone")


@haft.tool(mode="read")
def get_broken() -> str:
    """Asks for something, and does not hear of it."""
    raise ConnectionResetError("gone")


TOOLS = (
    refund, get_slow, lose_connection, hang, flaky, get_report, get_failure, give, give_dates, break_off, get_broken,
)  # fmt: skip


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as node, node.worker(*TOOLS):
        yield node


def eventually(check: Callable[[], Any]) -> Any:
    for _ in range(600):
        if found := check():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come to that")


def settlement(node: Node, call: haft.Call) -> Any:
    return next((wait for wait in node.client.pending() if wait["call"] == call.call), None)


def test_a_call_is_approved_runs_once_and_is_taken_back(node: Node) -> None:
    call = node.client.call("refund", {"cents": 5})
    assert call.state == "waiting" and not paid
    wait = settlement(node, call)
    assert wait["preview"]["diff"] == "5 leave" and wait["preview"]["targets"] == ["bank"]
    # Two approve at once; one of them is told that it was second.
    said: list[str] = []

    def approve() -> None:
        try:
            node.client.approve(call)
            said.append("yes")
        except haft.ApiError as error:
            said.append(error.code)

    both = [threading.Thread(target=approve) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert sorted(said) == ["stale", "yes"]
    done = node.client.wait(call)
    assert done.value == {"id": call.call} and paid == [call.call]
    taken = node.client.undo(call)
    assert taken["state"] == "waiting", taken
    back = haft.Call(taken["session"], taken["call"], "waiting")
    node.client.approve(back)
    assert node.client.wait(back).ok and paid == []


def test_an_approval_holds_only_for_what_was_shown(node: Node) -> None:
    call = node.client.call("refund", {"cents": 7})
    world["balance"] = 3
    node.client.approve(call)
    wait = eventually(lambda: (w := settlement(node, call)) and w.get("round", 1) > 1 and w)
    assert not paid, wait
    node.client.deny(call, "not any more")
    denied = node.client.wait(call)
    assert denied.error is not None and denied.error["class"] == "denied" and not paid


def test_who_watches_a_session_is_shown_progress(node: Node) -> None:
    running.clear()
    caller = threading.Thread(target=lambda: node.client.call("get_slow", {"seconds": 3}))
    caller.start()
    assert running.wait(10)
    url = f"{node.url}/haft/v1/sessions/{at[0].session}/events/stream"
    asked = urllib.request.Request(url, headers={"x-api-key": node.key})
    shown: list[Any] = []
    with urllib.request.urlopen(asked, timeout=20) as stream:
        kind = ""
        for line in stream:
            text = line.decode().strip()
            kind = text.removeprefix("event:").strip() if text.startswith("event:") else kind
            if kind == "progress" and text.startswith("data:"):
                shown.append(json.loads(text.removeprefix("data:")))
            if len(shown) == 2:
                break
    assert {each["call"] for each in shown} == {at[0].call}
    assert 0 < shown[1]["progress"]["left"] < shown[0]["progress"]["left"] < 3
    caller.join(10)


def test_context_and_cancel(node: Node) -> None:
    done = node.client.call("get_slow", {"seconds": 0.05})
    assert done.value == {"tenant": "default", "user": "admin", "attempt": 1}
    running.clear()
    made: list[haft.Call] = []
    caller = threading.Thread(target=lambda: made.append(node.client.call("get_slow", {"seconds": 60})))
    caller.start()
    assert running.wait(10)
    found = node.client.request("GET", "/haft/v1/sessions")["data"][0]["id"]
    events = node.client.request("GET", f"/haft/v1/sessions/{found}/events?limit=1000")["data"]
    call = next(e["event"]["call"] for e in events if e["event"]["type"] == "call.started")
    node.client.cancel(haft.Call(found, call, "waiting"))
    caller.join(10)
    assert made[0].error is not None and made[0].error["class"] == "cancelled"


def test_a_lost_connection_and_a_timeout_leave_the_call_in_doubt(node: Node) -> None:
    lost = node.client.call("lose_connection")
    assert lost.state == "in_doubt" and "connection broke" in (lost.because or "")
    node.client.settle(lost, "happened", "sent")
    assert node.client.wait(lost).value == "sent"
    late = node.client.call("hang")
    assert late.state == "in_doubt", late
    # What it did in the end settles the call by itself.
    assert node.client.wait(late).value == "late"


def test_every_attempt_has_the_same_key(node: Node) -> None:
    assert node.client.call("flaky").value == 2
    assert len(attempts) == 2 and len(set(attempts)) == 1


def test_the_same_request_again_is_the_same_call(node: Node) -> None:
    before = len(attempts)
    first = node.client.call("flaky", idempotency_key="k1")
    again = node.client.call("flaky", idempotency_key="k1")
    assert first.call == again.call and len(attempts) == before + 2


def test_results_errors_and_artifacts(node: Node) -> None:
    report = node.client.call("get_report")
    assert report.value == {"pages": 3}
    assert report.outcome["directives"]["next_action"] == "read it"
    assert [kept["bytes"] for kept in report.outcome["result"]["ok"]["artifacts"]] == [300_000]
    failed = node.client.call("get_failure")
    assert failed.error is not None and failed.error["message"] == "no such thing"
    assert failed.error["class"] == "tool_error"


@pytest.mark.parametrize("what", UNSENDABLE)
def test_what_ran_has_run_also_if_its_result_cannot_be_sent(node: Node, what: str) -> None:
    made = node.client.call("give", {"what": what})
    assert made.ok and made.value is None, made
    assert "the tool ran, but its result could not be sent" in json.dumps(made.outcome)


def test_data_and_partial_results_are_made_json(node: Node) -> None:
    assert node.client.call("give_dates", {"fails": False}).value == {"day": "2026-01-02"}
    failed = node.client.call("give_dates", {"fails": True})
    assert failed.error is not None and failed.error["message"] == "no"


@pytest.mark.parametrize("how", OPEN)
def test_an_exception_that_leaves_the_effect_open_leaves_the_call_in_doubt(node: Node, how: str) -> None:
    made = node.client.call("break_off", {"how": how})
    assert made.state == "in_doubt", made
    node.client.settle(made, "give_up")


def test_what_only_reads_simply_fails(node: Node) -> None:
    failed = node.client.call("get_broken")
    assert failed.error is not None and failed.error["message"] == "gone"


def test_code_is_told_to_stop_when_no_server_answers_for_its_lease() -> None:
    told: list[float] = []

    @haft.tool(mode="external", approve=False, timeout="60s")
    def last(context: haft.Context) -> None:
        """Waits to be told to stop."""
        running.set()
        if context.wait_cancelled(30):
            told.append(time.monotonic())

    running.clear()
    with Node() as node, node.worker(last, patience=0.1):
        caller = threading.Thread(target=lambda: _ignored(lambda: node.client.call("last")), daemon=True)
        caller.start()
        assert running.wait(10)
        time.sleep(0.5)
        assert not told
        node.kill()
        killed = time.monotonic()
        eventually(lambda: told)
        assert 3 < told[0] - killed < 12


def _ignored(what: Callable[[], Any]) -> None:
    try:
        what()
    except Exception:  # noqa: BLE001 - the server is killed meanwhile
        pass


def test_a_worker_s_tool_is_listed_with_what_it_declares(node: Node) -> None:
    listed = next(tool for tool in node.client.tools() if tool["name"] == "refund")
    assert listed["undo"]["tool"] == "claim_back" and listed["previews"] is True
    assert listed["facets"]["spend"] == "possible"


def test_a_wait_outlives_a_kill_of_the_server_and_calls_wait_for_the_worker(
    database_url: str | None,
) -> None:
    with Node(database_url=database_url) as node:
        with node.worker(refund, name="desk"):
            world["balance"] = 1
            call = node.client.call("refund", {"cents": 9})
            assert call.state == "waiting"
        node.kill()
        node.start()
        # No worker is there. The tool is known, the approval is taken, and the call waits.
        node.client.approve(call)
        eventually(lambda: node.client.get(call)["stage"] == "queued")
        queue = node.client.get(call)["queue"]
        assert queue["pool"] == "worker/refund" and "no worker" in queue["because"], queue
        assert not paid
        with node.worker(refund, name="desk"):
            assert node.client.wait(call).value == {"id": call.call}
        assert paid == [call.call]
        paid.clear()
