"""The guarantees of a tool in Python, each through a real server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import haft
from haft.testing import Node

paid: list[str] = []
world = {"balance": 10}
running = threading.Event()


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
    running.set()
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


TOOLS = (refund, get_slow, lose_connection, hang, flaky, get_report, get_failure)


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


def test_context_progress_and_cancel(node: Node) -> None:
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


def test_limits_count_what_a_worker_s_tool_costs(node: Node) -> None:
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
