"""The worker that the conformance suite wants, in Python."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import haft


@haft.tool(mode="read")
def conform_echo(value: Any, context: haft.Context) -> dict[str, Any]:
    """Returns what it was given."""
    told = {"key": context.key, "attempt": context.attempt, "tenant": context.tenant}
    return {"value": value, "user": context.user_id, **told}


@haft.tool(mode="read")
def conform_fail() -> None:
    """Fails."""
    raise haft.ToolError("it failed", error_class="upstream")


@haft.tool(mode="external", approve=False)
async def conform_unknown() -> None:
    """Does not know whether it took effect."""
    raise haft.EffectUnknown("the connection broke")


@haft.tool(mode="external", approve=False, key=True, retry=haft.Retry(3, backoff="10ms"))
def conform_flaky(context: haft.Context) -> dict[str, Any]:
    """Works the second time."""
    if context.attempt == 1:
        raise haft.ToolError("busy", error_class="upstream")
    return {"key": context.key, "attempt": context.attempt}


@haft.tool(mode="external", approve=True, preview=lambda: "shown")
def conform_ask() -> str:
    """Asks first."""
    return "asked"


@haft.tool(mode="read", timeout="120s")
def conform_slow(ms: int, context: haft.Context) -> str:
    """Waits, and can be stopped."""
    end = time.monotonic() + ms / 1000
    while time.monotonic() < end:
        if context.wait_cancelled(0.05):
            raise haft.Cancelled(effect="none")
        context.progress({"left": end - time.monotonic()})
    return "slept"


def find(path: str, context: haft.Context) -> dict[str, str] | None:
    known = Path(path).exists() and context.key in Path(path).read_text().split()
    return {"key": context.key} if known else None


@haft.tool(mode="external", approve=False, verify=find)
def conform_charge(path: str, context: haft.Context) -> dict[str, str]:
    """Writes its key into a book, and dies once if it is told to."""
    with open(path, "a") as book:
        book.write(f"{context.key}\n")
    if (die := Path(f"{path}.die")).exists():
        die.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"key": context.key}


if __name__ == "__main__":
    tools = (conform_echo, conform_fail, conform_unknown, conform_flaky, conform_ask, conform_slow)
    haft.Worker(*tools, conform_charge).run()
