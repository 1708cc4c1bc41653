"""What a tool's function is told beside its arguments."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from ._errors import Cancelled


class Context:
    """The surroundings of a call. A parameter of this type is injected and not in the schema."""

    def __init__(
        self,
        *,
        tool: str = "",
        session: str = "",
        call: str = "",
        attempt: int = 1,
        key: str = "",
        tenant: str = "default",
        actor: dict[str, Any] | None = None,
        timeout: float | None = None,
        report: Callable[[Any], None] | None = None,
        upload: Callable[[str, str, bytes], dict[str, Any]] | None = None,
    ) -> None:
        self.tool = tool
        self.session = session
        self.call = call
        #: Which attempt of the call this is, from 1.
        self.attempt = attempt
        #: The same for every attempt of the call and for no other call: hand it to the service
        #: that you call as its idempotency key.
        self.key = key
        self.tenant = tenant
        #: On whose behalf the call runs: ``{"kind": "user", "id": "ann"}``.
        self.actor: dict[str, Any] = actor or {}
        #: When the call's time is up, by ``time.monotonic()``.
        self.deadline = None if timeout is None else time.monotonic() + timeout
        self._stop = threading.Event()
        #: Until when some server knows that the call runs, by ``time.monotonic()``.
        self._good_until: float | None = None
        self._report = report
        self._upload = upload
        self._artifacts: list[dict[str, Any]] = []

    @property
    def user_id(self) -> str:
        """The id of whoever the call runs for."""
        return str(self.actor.get("id", ""))

    @property
    def cancelled(self) -> bool:
        """Whether the call was told to stop, or no server knows any more that it runs."""
        if self._good_until is not None and time.monotonic() > self._good_until:
            self._stop.set()
        return self._stop.is_set()

    def check_cancelled(self) -> None:
        """Raises :class:`Cancelled` if the call was told to stop: ask before any effect."""
        if self.cancelled:
            raise Cancelled()

    def wait_cancelled(self, timeout: float | None = None) -> bool:
        """Waits until the call is told to stop, and returns whether it was."""
        return self._stop.wait(timeout)

    def progress(self, value: Any) -> None:
        """Tells whoever watches how far the call is. Nothing is recorded."""
        if self._report is not None:
            self._report(value)

    def keep(self, title: str, data: bytes, media_type: str = "application/octet-stream") -> dict[str, Any]:
        """Keeps an output of any size beside the log. It becomes an artifact of the result."""
        if self._upload is None:
            return {}
        kept = self._upload(title, media_type, data)
        self._artifacts.append(kept)
        return kept
