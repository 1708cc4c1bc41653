"""A worker that dies, or waits to be let go on, where a test wants it to."""

import os
import signal
import threading
import time
from pathlib import Path

import haft
from haft import _worker

PLACE = Path(os.environ["DESK"])


def effect(line: str) -> None:
    """What is counted outside: a line in a file, on the disk before this returns."""
    with open(PLACE / "effects", "a") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def is_known(key: str) -> bool:
    path = PLACE / "effects"
    return path.exists() and key in path.read_text().split()


def boundary(name: str, context: haft.Context) -> None:
    """Dies here the first time, or waits here, if the test wants that."""
    (PLACE / "at").write_text(f"{context.session} {context.call}")
    once = PLACE / "once"
    if os.environ.get("DIE_AT") == name and not once.exists():
        once.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if os.environ.get("WAIT_AT") == name and not once.exists():
        once.touch()
        (PLACE / "waits").touch()
        while not (PLACE / "go").exists():
            time.sleep(0.01)


bank = threading.Lock()


def charged(context: haft.Context, knows_keys: bool = False) -> dict[str, str]:
    boundary("before_effect", context)
    with bank:
        if not knows_keys or not is_known(context.key):
            effect(context.key)
    boundary("after_effect", context)
    return {"id": f"re_{context.call}"}


@haft.tool(mode="external", approve=False, timeout="60s")
def plain(cents: int, context: haft.Context) -> dict[str, str]:
    """Charges, and cannot be repeated."""
    return charged(context)


@haft.tool(mode="external", approve=False, key=True, timeout="60s")
def keyed(cents: int, context: haft.Context) -> dict[str, str]:
    """Charges once for each key, as a bank that knows keys does."""
    return charged(context, knows_keys=True)


def find(cents: int, context: haft.Context) -> dict[str, str] | None:
    return {"id": f"re_{context.call}"} if is_known(context.key) else None


@haft.tool(mode="external", approve=False, verify=find, timeout="60s")
async def verified(cents: int, context: haft.Context) -> dict[str, str]:
    """Charges, and can look up whether it did."""
    return charged(context)


if __name__ == "__main__":
    say_done = _worker._Node._say_done

    def dying(self: _worker._Node, job: _worker._Job, outcome: dict[str, object]) -> object:
        boundary("before_done", job.context)
        answer = say_done(self, job, outcome)
        boundary("after_done", job.context)
        return answer

    _worker._Node._say_done = dying  # type: ignore[method-assign,assignment]
    haft.Worker(plain, keyed, verified).run()
