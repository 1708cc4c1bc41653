"""How a tool says that it failed."""

from __future__ import annotations

from typing import Any, Literal

ErrorClass = Literal[
    "auth", "cancelled", "internal", "invalid_args", "rate_limited", "timeout", "tool_error", "upstream"
]


class ToolError(Exception):
    """The call did not do what was asked; the model reads the message.

    ``error_class`` says what kind of failure it is: ``upstream`` and ``rate_limited`` may work
    later, ``auth`` and ``internal`` end the run. ``effect="none"`` says that the call certainly
    changed nothing although it was stopped or ran out of time.
    """

    def __init__(
        self,
        message: str,
        *,
        error_class: ErrorClass = "tool_error",
        debug: str | None = None,
        partial: Any = None,
        effect: Literal["unsaid", "none", "unknown"] = "unsaid",
        needs_followup: bool | None = None,
        terminal: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.error_class: ErrorClass = error_class
        self.debug = debug
        self.partial = partial
        self.effect: Literal["unsaid", "none", "unknown"] = effect
        self.needs_followup = needs_followup
        self.terminal = terminal


class EffectUnknown(ToolError):
    """Nobody knows whether the call took effect, for example after a connection broke.

    Haft then asks the tool's ``verify`` function, runs the call again if that is declared to be
    safe, and otherwise asks a person.
    """

    def __init__(self, message: str, *, debug: str | None = None) -> None:
        super().__init__(message, debug=debug, effect="unknown")


class Cancelled(ToolError):
    """The call was told to stop. Raised by :meth:`Context.check_cancelled`."""

    def __init__(self, *, effect: Literal["unsaid", "none", "unknown"] = "unsaid") -> None:
        super().__init__("Request was cancelled", error_class="cancelled", effect=effect)
