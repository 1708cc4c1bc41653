"""The worker: asks servers for jobs and runs them."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import random
import signal
import socket
import threading
import time
import traceback
import urllib.parse
import uuid
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from ._context import Context
from ._errors import ToolError
from ._http import Answer, Server, Unreachable, default_key, default_urls
from ._results import ToolResult
from ._tool import UNKNOWN, Preview, Tool

log = logging.getLogger("haft")

_BEAT_EVERY = 2.5
_BACKOFF_MAX = 5.0


class _Job:
    """A job that a server gave."""

    def __init__(self, node: "_Node", body: dict[str, Any], context: Context) -> None:
        self.node = node
        self.body = body
        self.lease = str(body["lease"])
        self.context = context
        self.progress: list[Any] = []


class Worker:
    """Runs the calls of tools for one or several servers.

    ``url`` and ``key`` default to ``HAFT_URL`` (several servers with commas) and
    ``HAFT_API_KEY``; the key needs the scope ``work``. A session's calls are run by the node that
    has the session, so a worker asks every node.

    ``name`` says which worker it is. Give one only if at most one process has it at a time: a
    process that registers under it tells the server that the process before it is dead, so that
    the calls which died with it are recovered at once. Without a name each process has its own.
    """

    def __init__(
        self,
        *tools: Tool[..., Any],
        url: str | list[str] | None = None,
        key: str | None = None,
        name: str | None = None,
        slots: int = 8,
        patience: float = 10.0,
    ) -> None:
        if not tools:
            raise ValueError("a worker needs at least one tool")
        self.tools: dict[str, Tool[..., Any]] = {}
        for given in tools:
            self._add(given)
        self.instance = uuid.uuid4().hex
        default = f"{socket.gethostname()}-{os.getpid()}-{self.instance[:8]}"
        self.name = name or os.environ.get("HAFT_WORKER") or default
        self.slots = slots
        self.patience = patience
        self.since: int | None = None
        self._free = threading.BoundedSemaphore(slots)
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._failed: Exception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_lock = threading.Lock()
        self._jobs: set[threading.Thread] = set()
        self._lock = threading.Lock()
        found = default_key(key)
        self._nodes = [_Node(self, Server(each, found)) for each in default_urls(url)]
        self._pollers: list[threading.Thread] = []

    def _add(self, given: Tool[..., Any]) -> None:
        if self.tools.get(given.name, given) is not given:
            raise ValueError(f"two tools are called `{given.name}`")
        self.tools[given.name] = given
        back = given.undo.tool if given.undo is not None else None
        if isinstance(back, Tool) and back.name not in self.tools:
            self._add(back)

    def start(self) -> "Worker":
        """Starts to work in threads of its own, and returns once a server knows the tools."""
        for node in self._nodes:
            poller = threading.Thread(target=node.poll_forever, name="haft-poll", daemon=True)
            self._pollers.append(poller)
            poller.start()
            threading.Thread(target=node.beat_forever, name="haft-beat", daemon=True).start()
        while not self._ready.wait(0.1):
            if self._failed is not None:
                self.stop()
                raise self._failed
            if self._stop.is_set():
                break
        return self

    def run(self) -> None:
        """Works until the process is told to end (SIGTERM or Ctrl-C)."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: self._stop.set())
        self.start()
        print(f"worker {self.name} offers {', '.join(self.tools)}", flush=True)
        # A wait without end would not hear of signals on every system.
        while not self._stop.wait(0.5):
            if self._failed is not None:
                self.stop()
                raise self._failed
        self.stop()

    def stop(self) -> None:
        """Asks for no more jobs, and waits for those that run, for as long as its patience."""
        self._stop.set()
        deadline = time.monotonic() + self.patience
        for node in self._nodes:
            node.hang_up()
        for thread in self._pollers:
            # What it was given last is given back, not lost.
            thread.join(max(0.0, deadline - time.monotonic()))
        while time.monotonic() < deadline:
            with self._lock:
                if not self._jobs:
                    break
            time.sleep(0.02)
        for node in self._nodes:
            node.gone.set()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def __enter__(self) -> "Worker":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def stopping(self) -> bool:
        """Whether the worker asks for no more jobs."""
        return self._stop.is_set()

    def fail(self, error: Exception) -> None:
        """Gives up for a reason that no waiting helps against."""
        self._failed = error

    def take(self, job: _Job) -> None:
        """Runs a job in a thread of its own. A place was taken for it before."""

        def work() -> None:
            try:
                outcome = self._outcome(job)
                job.node.done(job, outcome)
            finally:
                job.node.forget(job)
                self._free.release()
                with self._lock:
                    self._jobs.discard(thread)

        thread = threading.Thread(target=work, name=f"haft-{job.body['tool']}", daemon=True)
        with self._lock:
            self._jobs.add(thread)
        thread.start()

    def _outcome(self, job: _Job) -> dict[str, Any]:
        try:
            return self._ran(job)
        except ToolError as error:
            directives = {"needs_followup": error.needs_followup, "terminal": error.terminal}
            return {
                "type": "error",
                "class": error.error_class,
                "message": error.message,
                "debug": error.debug,
                "partial": to_jsonable_python(error.partial),
                "effect": error.effect,
                "directives": {name: value for name, value in directives.items() if value is not None},
            }
        except BaseException as error:  # noqa: BLE001 - whatever happens is the call's outcome
            debug = traceback.format_exc(limit=20)
            message = str(error) or type(error).__name__
            return {"type": "error", "message": message, "debug": debug}

    def _ran(self, job: _Job) -> dict[str, Any]:
        tool = self.tools.get(str(job.body["tool"]))
        if tool is None:
            return {"type": "released"}
        kind = job.body["kind"]
        function = {"run": tool.function, "verify": tool.verify, "preview": tool.preview}.get(kind)
        if function is None:
            raise ToolError(f"this worker has no `{kind}` function for `{tool.name}`")
        try:
            bound = tool.bind(function, job.body["arguments"], job.context)
        except ValidationError as error:
            raise ToolError(str(error), error_class="invalid_args", effect="none") from error
        returned = self._called(bound)
        if kind == "verify":
            return _verified(returned)
        if kind == "preview":
            return _previewed(returned)
        return _returned(returned, job.context)

    def _called(self, bound: Callable[[], Any]) -> Any:
        """Calls a function, on the loop that all coroutines of this worker share if it is one."""
        value = bound()
        if inspect.isawaitable(value):

            async def awaited() -> Any:
                return await value

            return asyncio.run_coroutine_threadsafe(awaited(), self._event_loop()).result()
        return value

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        with self._loop_lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                threading.Thread(target=loop.run_forever, name="haft-loop", daemon=True).start()
                self._loop = loop
            return self._loop


def _returned(value: Any, context: Context) -> dict[str, Any]:
    outcome: dict[str, Any] = {"type": "ok", "artifacts": context._artifacts}
    if isinstance(value, ToolResult):
        directives = {
            "terminal": value.terminal,
            "needs_followup": value.needs_followup,
            "next_action": value.next_action,
            "user_message": value.message,
        }
        said = {name: each for name, each in directives.items() if each is not None}
        if not value.success:
            message = value.error or value.message or "the tool gave no reason"
            return {"type": "error", "message": message, "partial": value.data, "directives": said}
        return {**outcome, "value": value.data, "text": value.message, "directives": said}
    if isinstance(value, str):
        return {**outcome, "value": value, "text": value}
    return {**outcome, "value": to_jsonable_python(value)}


def _verified(value: Any) -> dict[str, Any]:
    if value is None:
        return {"type": "absent"}
    if value is UNKNOWN:
        return {"type": "unknown"}
    return {"type": "applied", "value": to_jsonable_python(value)}


def _previewed(value: Any) -> dict[str, Any]:
    if not isinstance(value, Preview):
        value = Preview(diff=None if value is None else str(value))
    state = to_jsonable_python(value.state)
    return {"type": "preview", "diff": value.diff, "targets": list(value.targets), "state": state}


class _Node:
    """One server that a worker works for."""

    def __init__(self, worker: Worker, server: Server) -> None:
        self.worker = worker
        self.server = server
        self.gone = threading.Event()
        self._jobs: dict[str, _Job] = {}
        self._lock = threading.Lock()
        self._beat_now = threading.Event()

    def _me(self) -> dict[str, Any]:
        return {"worker": self.worker.name, "instance": self.worker.instance}

    def poll_forever(self) -> None:
        """Registers, then asks for jobs, through lost connections and restarts of the server."""
        registered, failures = False, 0
        while not self.worker.stopping:
            try:
                if not registered:
                    self._register()
                    registered, failures = True, 0
                self._poll()
                failures = 0
            except _Unregistered:
                registered = False
            except (Unreachable, _TryLater) as error:
                registered = registered and isinstance(error, _TryLater)
                failures += 1
                if failures in (1, 10) or failures % 100 == 0:
                    log.warning("the server cannot be asked for jobs: %s", error)
                pause = min(_BACKOFF_MAX, 0.05 * 2 ** min(failures, 8)) * (0.5 + random.random() / 2)
                self.worker._stop.wait(pause)
            except Exception as error:  # noqa: BLE001 - told to whoever runs the worker
                self.worker.fail(error)
                return

    def _register(self) -> None:
        definitions = [tool.definition for tool in self.worker.tools.values()]
        body = {**self._me(), "tools": definitions}
        if self.worker.since is not None:
            body["since"] = self.worker.since
        answer = self.server.request("POST", "/haft/v1/workers/register", body)
        if answer.status != 200:
            raise _trouble(answer)
        self.worker.since = self.worker.since or int(answer.body["since"])
        outdated = [name for name, told in answer.body["tools"].items() if not told["current"]]
        if outdated:
            log.warning("a newer worker has changed %s; this one gets no calls of it", ", ".join(outdated))
        self.worker._ready.set()

    def _poll(self) -> None:
        free = self._take_places()
        if free == 0:
            return
        jobs: list[dict[str, Any]] = []
        try:
            body = {**self._me(), "free": free, "wait_ms": 10_000 if self._is_alone() else 2_000}
            answer = self.server.request("POST", "/haft/v1/workers/poll", body, timeout=25)
            if answer.status != 200:
                raise _trouble(answer)
            jobs = answer.body["jobs"]
        finally:
            for _ in range(free - len(jobs)):
                self.worker._free.release()
        for job in jobs:
            self._begin(job)

    def hang_up(self) -> None:
        """Has the server answer the request for jobs that is open, as there will be no other."""
        try:
            self.server.request("POST", "/haft/v1/workers/poll", {**self._me(), "free": 0}, timeout=2)
        except Unreachable:
            pass

    def _is_alone(self) -> bool:
        return len(self.worker._nodes) == 1

    def _take_places(self) -> int:
        """Takes the free places, of which each node gets its share; waits for the first."""
        if not self.worker._free.acquire(timeout=0.5):
            return 0
        taken, share = 1, max(1, self.worker.slots // len(self.worker._nodes))
        while taken < share and self.worker._free.acquire(blocking=False):
            taken += 1
        return taken

    def _begin(self, body: dict[str, Any]) -> None:
        lease = str(body["lease"])
        context = Context(
            tool=body["tool"],
            session=body["session"],
            call=body["call"],
            attempt=body["attempt"],
            key=body["key"],
            tenant=body["tenant"],
            actor=body["actor"],
            timeout=body["timeout_ms"] / 1000,
            report=lambda value: self._report(lease, value),
            upload=lambda title, kind, data: self._upload(lease, title, kind, data),
        )
        job = _Job(self, body, context)
        if self.worker.stopping:
            self._say_done(job, {"type": "released"})
            self.worker._free.release()
            return
        with self._lock:
            self._jobs[lease] = job
        self.worker.take(job)

    def forget(self, job: _Job) -> None:
        """No longer says that a job is being worked on."""
        with self._lock:
            self._jobs.pop(job.lease, None)

    def _report(self, lease: str, value: Any) -> None:
        with self._lock:
            job = self._jobs.get(lease)
            if job is not None:
                job.progress.append(to_jsonable_python(value))
        self._beat_now.set()

    def _upload(self, lease: str, title: str, kind: str, data: bytes) -> dict[str, Any]:
        query = urllib.parse.urlencode({"lease": lease, "title": title})
        path = f"/haft/v1/workers/keep?{query}"
        answer = self.server.request("POST", path, raw=data, headers={"content-type": kind}, timeout=120)
        if answer.status != 200:
            raise ToolError(f"the output could not be kept: {answer.message}", error_class="upstream")
        kept: dict[str, Any] = answer.body
        return kept

    def beat_forever(self) -> None:
        """Says which jobs are still worked on, and hears which should stop. In a thread of its
        own, so that nothing that a tool does can hold it up."""
        while not self.gone.is_set():
            with self._lock:
                jobs = dict(self._jobs)
            if not jobs:
                self._beat_now.wait(0.25)
                self._beat_now.clear()
                continue
            progress: dict[str, Any] = {}
            for lease, job in jobs.items():
                if job.progress:
                    progress[lease] = job.progress.pop(0)
            more = any(job.progress for job in jobs.values())
            wait = 0 if progress or more or self._beat_now.is_set() else int(_BEAT_EVERY * 1000)
            self._beat_now.clear()
            body = {**self._me(), "leases": list(jobs), "progress": progress, "wait_ms": wait}
            try:
                answer = self.server.request("POST", "/haft/v1/workers/beat", body, timeout=10)
                told = answer.body if answer.status == 200 else {}
            except Unreachable:
                told = {}
                self.gone.wait(0.5)
            for lease in told.get("cancel", []):
                if lease in jobs:
                    jobs[lease].context._stop.set()
            if wait == 0:
                self._beat_now.wait(0.05)
            elif told.get("cancel"):
                # It knows; the server would answer at once until it is done.
                self.gone.wait(0.5)

    def done(self, job: _Job, outcome: dict[str, Any]) -> None:
        """Says what came of a job, until some server has it. What it did must not be lost."""
        failures = 0
        while True:
            # After a while any node will do: another one may have the session by now.
            nodes = [self, *(each for each in self.worker._nodes if each is not self)]
            node = nodes[0] if failures < 2 else nodes[failures % len(nodes)]
            try:
                answer = node._say_done(job, outcome)
            except Unreachable as error:
                log.warning("what came of %s cannot be reported yet: %s", job.body["call"], error)
                answer = None
            if answer is not None and answer.status == 409:
                log.info("what came of %s is not needed any more: %s", job.body["call"], answer.message)
                return
            if answer is not None and answer.status < 500 and answer.status != 429:
                if answer.status != 200:
                    log.error("what came of %s was refused: %s", job.body["call"], answer.message)
                    if outcome["type"] == "ok":
                        reason = f"the tool ran, but its result was refused: {answer.message}"
                        outcome = {"type": "error", "message": reason}
                        continue
                return
            failures += 1
            if self.gone.wait(min(_BACKOFF_MAX, 0.05 * 2 ** min(failures, 7))):
                return

    def _say_done(self, job: _Job, outcome: dict[str, Any]) -> Answer:
        body = {"lease": job.lease, "outcome": outcome}
        return self.server.request("POST", "/haft/v1/workers/done", body, timeout=30)


class _Unregistered(Exception):
    """The server does not know this worker."""


class _TryLater(Exception):
    """The server cannot answer now."""


def _trouble(answer: Answer) -> Exception:
    if answer.code == "unregistered":
        return _Unregistered()
    if answer.code == "replaced":
        return RuntimeError("another process works under this worker's name; this one ends")
    if answer.status >= 500 or answer.status == 429:
        return _TryLater(answer.message)
    return RuntimeError(f"the server refused this worker: {answer.message}")


