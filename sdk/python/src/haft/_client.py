"""A client for callers and approvers: calls tools and decides about what waits."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ._http import Answer, Server, Unreachable, default_key, default_urls

State = Literal["done", "in_doubt", "waiting"]


class ApiError(Exception):
    """The server refused a request. ``code`` is stable, ``status`` is HTTP's."""

    def __init__(self, status: int, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code


@dataclass(frozen=True)
class Call:
    """Where a call stands."""

    session: str
    call: str
    state: State
    #: The whole outcome, once it is done.
    outcome: Mapping[str, Any] = field(default_factory=dict)
    #: Why nobody knows whether it took effect.
    because: str | None = None

    @property
    def ok(self) -> bool:
        """Whether it worked."""
        return "ok" in self.outcome.get("result", {})

    @property
    def value(self) -> Any:
        """What it gave."""
        return self.outcome.get("result", {}).get("ok", {}).get("value")

    @property
    def error(self) -> Mapping[str, Any] | None:
        """Why it failed, with ``class`` and ``message``."""
        failure: Mapping[str, Any] | None = self.outcome.get("result", {}).get("err")
        return failure


class Client:
    """Talks to a server. ``url`` and ``key`` default to ``HAFT_URL`` and ``HAFT_API_KEY``."""

    def __init__(self, url: str | None = None, key: str | None = None) -> None:
        self._servers = [Server(each, default_key(key)) for each in default_urls(url)]

    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
        suspend: float | None = None,
    ) -> Call:
        """Calls a tool. Returns when it is done, waits for somebody, or is in doubt.

        The same ``idempotency_key`` again is the same call again. Without one, a key is made, so
        that a lost connection does not make two calls of one.
        """
        body: dict[str, Any] = {"arguments": dict(arguments or {})}
        if suspend is not None:
            body["suspend_ttl_ms"] = int(suspend * 1000)
        key = idempotency_key or uuid.uuid4().hex
        made = self._post(f"/haft/v1/tools/{tool}/call", body, key=key, timeout=3600)
        return Call(made["session"], made["call"], made["state"], made.get("outcome", {}), made.get("because"))

    def get(self, call: Call) -> Mapping[str, Any]:
        """Returns what is known of a call: its ``stage``, and its ``outcome`` once it is over."""
        return self._get(_path(call))

    def wait(self, call: Call, timeout: float = 60.0) -> Call:
        """Waits until a call is over."""
        deadline = time.monotonic() + timeout
        while True:
            found = self.get(call)
            if found["stage"] == "settled":
                return Call(call.session, call.call, "done", found.get("outcome") or {})
            if time.monotonic() > deadline:
                raise TimeoutError(f"the call is still {found['stage']}")
            time.sleep(0.05)

    def pending(self) -> list[Mapping[str, Any]]:
        """Lists what waits for somebody."""
        found: list[Mapping[str, Any]] = self._get("/haft/v1/pending")["data"]
        return found

    def approve(
        self, call: Call, *, arguments: Mapping[str, Any] | None = None, note: str | None = None
    ) -> Mapping[str, Any]:
        """Says yes, perhaps to other arguments."""
        return self._resolve(call, {"type": "approve", "arguments": arguments, "note": note})

    def deny(self, call: Call, note: str | None = None) -> Mapping[str, Any]:
        """Says no; the model reads the note."""
        return self._resolve(call, {"type": "deny", "note": note})

    def settle(
        self, call: Call, verdict: Literal["give_up", "happened", "run_again"], value: Any = None
    ) -> Mapping[str, Any]:
        """Says what became of a call in doubt."""
        body: dict[str, Any] = {"type": "settle", "verdict": verdict}
        if value is not None:
            body["value"] = value
        return self._resolve(call, body)

    def cancel(self, call: Call) -> Mapping[str, Any]:
        """Stops a call."""
        return self._post(f"{_path(call)}/cancel", {})

    def undo(self, call: Call) -> Mapping[str, Any]:
        """Takes a call back."""
        return self._post(f"{_path(call)}/undo", {})

    def tools(self) -> list[Mapping[str, Any]]:
        """Lists the tools that the server has."""
        found: list[Mapping[str, Any]] = self._get("/haft/v1/tools")["data"]
        return found

    def events(self, call: Call) -> list[Mapping[str, Any]]:
        """Lists the log of a call's session."""
        path = f"/haft/v1/sessions/{call.session}/events?limit=1000"
        found: list[Mapping[str, Any]] = self._get(path)["data"]
        return found

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Sends any other request of the API, and returns the answer's body."""
        return self._checked(self._sent(method, path, body))

    def _resolve(self, call: Call, body: Mapping[str, Any]) -> Mapping[str, Any]:
        said = {name: value for name, value in body.items() if value is not None}
        return self._post(f"{_path(call)}/resolve", said)

    def _get(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = self._checked(self._sent("GET", path, None))
        return found

    def _post(
        self, path: str, body: Any, *, key: str | None = None, timeout: float = 60.0
    ) -> dict[str, Any]:
        headers = None if key is None else {"idempotency-key": key}
        sent = self._sent("POST", path, body, headers=headers, timeout=timeout)
        found: dict[str, Any] = self._checked(sent)
        return found

    def _sent(
        self,
        method: str,
        path: str,
        body: Any,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> Answer:
        """Sends a request, again if its answer was lost: its key makes it the same request."""
        if method != "GET":
            headers = {"idempotency-key": uuid.uuid4().hex, **(headers or {})}
        last: Exception | None = None
        for attempt in range(4):
            server = self._servers[attempt % len(self._servers)]
            try:
                answer = server.request(method, path, body, headers=headers, timeout=timeout)
            except Unreachable as error:
                last = error
            else:
                if answer.status not in (429, 503):
                    return answer
                last = ApiError(answer.status, answer.message, answer.code)
            time.sleep(0.1 * 2**attempt)
        raise last if last is not None else Unreachable("no server")

    @staticmethod
    def _checked(answer: Answer) -> Any:
        if answer.status >= 400:
            raise ApiError(answer.status, answer.message, answer.code)
        return answer.body


def _path(call: Call) -> str:
    return f"/haft/v1/sessions/{call.session}/calls/{call.call}"
