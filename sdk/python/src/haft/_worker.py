"""The worker: asks servers for jobs and runs them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import json
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
from ._results import ToolMode, ToolResult, decide_tool_mode
from ._tool import UNKNOWN, Preview, Tool

log = logging.getLogger("haft")

_BEAT_EVERY = 2.5
_BACKOFF_MAX = 5.0
#: What a server reads of a request.
_BODY_MAX = (8 << 20) - 4096


class _Job:
    """A job that a server gave."""

    def __init__(self, node: "_Node", body: dict[str, Any], context: Context) -> None:
        self.node = node
        self.body = body
        self.lease = str(body["lease"])
        self.context = context
        self.lasts = float(body.get("lease_ms", 10_000)) / 1000
        context._good_until = time.monotonic() + self.lasts
        #: The latest value that was not sent yet, and nothing before it.
        self.progress: list[Any] = []

    def heard(self, asked: float) -> None:
        """Some server knows that the job was worked on when it was asked."""
        self.context._good_until = max(self.context._good_until or 0.0, asked + self.lasts)


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
        self._active: dict[str, _Job] = {}
        self._gone = threading.Event()
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
        threading.Thread(target=self._watch, name="haft-watch", daemon=True).start()
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
        self._gone.set()
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

    def active(self) -> dict[str, _Job]:
        """The jobs that are worked on, whichever node gave them: every node is told of all, as any
        of them may have to decide about their sessions when the one that gave them is gone."""
        with self._lock:
            return dict(self._active)

    def _watch(self) -> None:
        """Tells code to stop when no server has answered for as long as its lease lasts. In a
        thread of its own, as a request may hang."""
        while not self._gone.wait(0.1):
            for job in self.active().values():
                if not job.context._stop.is_set() and job.context.cancelled:
                    log.warning("no server answers, so %s is told to stop", job.body["call"])

    def take(self, job: _Job) -> None:
        """Runs a job in a thread of its own. A place was taken for it before."""

        def work() -> None:
            try:
                job.node.done(job, _sendable(self._outcome(job)))
            except Exception:  # noqa: BLE001 - the worker goes on
                log.exception("what came of %s could not be reported", job.body["call"])
            finally:
                self._free.release()
                with self._lock:
                    self._active.pop(job.lease, None)
                    self._jobs.discard(thread)

        thread = threading.Thread(target=work, name=f"haft-{job.body['tool']}", daemon=True)
        with self._lock:
            self._active[job.lease] = job
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
                "partial": error.partial,
                "effect": error.effect,
                "directives": {name: value for name, value in directives.items() if value is not None},
            }
        except BaseException as error:  # noqa: BLE001 - whatever happens is the call's outcome
            debug = traceback.format_exc(limit=20)
            message = _text(error) or type(error).__name__
            outcome = {"type": "error", "message": message, "debug": debug}
            if job.body["kind"] == "run" and _is_open(error) and not self._only_reads(job):
                outcome["effect"] = "unknown"
            return outcome

    def _only_reads(self, job: _Job) -> bool:
        tool = self.tools[str(job.body["tool"])]
        mode = tool.definition.get("mode")
        if mode is None and "category" not in tool.definition:
            mode = decide_tool_mode(tool.name)
        return mode == ToolMode.READ

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


#: How the classes of exceptions end that leave open whether a request arrived, in the standard
#: library and in the clients that people use.
_OPEN_ENDS = (
    "Timeout", "TimeoutError", "TimeoutException", "ConnectionError", "ConnectError", "NetworkError", "ProtocolError",
)  # fmt: skip
_OPEN = (TimeoutError, ConnectionError, asyncio.CancelledError, concurrent.futures.CancelledError)


def _is_open(error: BaseException) -> bool:
    """Whether an exception that nobody caught leaves open whether the call took effect."""
    return isinstance(error, _OPEN) or any(each.__name__.endswith(_OPEN_ENDS) for each in type(error).__mro__)


def _text(value: Any) -> str:
    """A text of anything, that can be sent."""
    try:
        return str(value).encode("utf-8", "replace").decode()
    except Exception:  # noqa: BLE001 - a `__str__` of somebody else
        return type(value).__name__


def _sendable(outcome: dict[str, Any]) -> dict[str, Any]:
    """An outcome as JSON, or as much of it as can be sent. What ran has run, whatever it gave."""
    try:
        plain: dict[str, Any] = to_jsonable_python(outcome)
        if len(json.dumps(plain, allow_nan=False)) > _BODY_MAX:
            raise ValueError(f"it has more than {_BODY_MAX} bytes; use `Context.keep`")
        return plain
    except Exception as error:  # noqa: BLE001 - of the code of the value's class
        return _reduced(outcome, _text(error), 0)


def _reduced(outcome: dict[str, Any], reason: str, refusals: int) -> dict[str, Any]:
    """What is left to say of an outcome that cannot be sent, or that was refused."""
    reason = _text(reason)[:500]
    kind = outcome["type"]
    if kind == "ok":
        text = f"the tool ran, but its result could not be sent: {reason}"
        kept = {"artifacts": outcome["artifacts"]} if refusals == 0 and outcome.get("artifacts") else {}
        return {"type": "ok", "value": None, "text": text, **kept}
    if kind == "applied":
        return {"type": "applied", "value": None}
    if kind != "error":
        return {"type": "error", "message": f"the {kind} could not be sent: {reason}", "effect": "none"}
    message = _text(outcome["message"])[:2000]
    left = {"type": "error", "message": message, "debug": f"the rest could not be sent: {reason}"}
    if outcome.get("effect") in ("none", "unknown"):
        left["effect"] = outcome["effect"]
    if refusals == 0 and isinstance(outcome.get("class"), str):
        left["class"] = outcome["class"]
    return left


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
    return {**outcome, "value": value}


def _verified(value: Any) -> dict[str, Any]:
    if value is None:
        return {"type": "absent"}
    if value is UNKNOWN:
        return {"type": "unknown"}
    return {"type": "applied", "value": value}


def _previewed(value: Any) -> dict[str, Any]:
    if not isinstance(value, Preview):
        value = Preview(diff=None if value is None else str(value))
    return {"type": "preview", "diff": value.diff, "targets": list(value.targets), "state": value.state}


class _Node:
    """One server that a worker works for."""

    def __init__(self, worker: Worker, server: Server) -> None:
        self.worker = worker
        self.server = server
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
            report=lambda value: self._report(job, value),
            upload=lambda title, kind, data: self._upload(lease, title, kind, data),
        )
        job = _Job(self, body, context)
        if self.worker.stopping:
            self._say_done(job, {"type": "released"})
            self.worker._free.release()
            return
        self.worker.take(job)

    def _report(self, job: _Job, value: Any) -> None:
        try:
            plain = to_jsonable_python(value)
            json.dumps(plain, allow_nan=False)
        except Exception as error:  # noqa: BLE001 - what cannot be shown must not end the call
            log.warning("the progress of %s cannot be sent: %s", job.body["call"], _text(error))
            return
        with self._lock:
            job.progress = [plain]
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
        gone, is_muted = self.worker._gone, False
        while not gone.is_set():
            jobs = self.worker.active()
            if not jobs:
                self._beat_now.wait(0.25)
                self._beat_now.clear()
                continue
            self._beat_now.clear()
            progress = {} if is_muted else self._progress(jobs)
            wait = 0 if progress else int(_BEAT_EVERY * 1000)
            body = {**self._me(), "leases": list(jobs), "progress": progress, "wait_ms": wait}
            asked = time.monotonic()
            told: Any = None
            try:
                answer = self.server.request("POST", "/haft/v1/workers/beat", body, timeout=10)
                told = answer.body if answer.status == 200 else None
            except Unreachable:
                pass
            # What cannot be shown must not cost the lease.
            is_muted = bool(progress) and told is None
            if not isinstance(told, dict):
                gone.wait(0.5)
                continue
            for job in jobs.values():
                job.heard(asked)
            for lease in told.get("cancel", []):
                if lease in jobs:
                    jobs[lease].context._stop.set()
            if wait == 0:
                self._beat_now.wait(0.05)
            elif told.get("cancel"):
                # It knows; the server would answer at once until it is done.
                gone.wait(0.5)

    def _progress(self, jobs: dict[str, _Job]) -> dict[str, Any]:
        """Takes the latest progress of the jobs that this node gave."""
        taken: dict[str, Any] = {}
        with self._lock:
            for lease, job in jobs.items():
                if job.node is self and job.progress:
                    taken[lease] = job.progress.pop()
        return taken

    def done(self, job: _Job, outcome: dict[str, Any]) -> None:
        """Says what came of a job, until some server has it. What it did must not be lost."""
        failures = refusals = 0
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
                    if refusals < 2 and outcome["type"] != "released":
                        outcome = _reduced(outcome, answer.message, refusals)
                        refusals += 1
                        continue
                return
            failures += 1
            if self.worker._gone.wait(min(_BACKOFF_MAX, 0.05 * 2 ** min(failures, 7))):
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


