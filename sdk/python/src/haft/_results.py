"""The envelopes of calls and results, and what a result means for the loop."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class ToolCall(BaseModel):
    """What the assistant asks to run."""

    model_config = ConfigDict(extra="forbid")

    id: str
    name: str
    arguments: dict[str, Any]


class ToolResult(BaseModel):
    """What a tool reports back. A function may return one instead of a plain value."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)

    success: bool
    terminal: bool | None = None
    needs_followup: bool | None = Field(default=None, alias="needsFollowup")
    next_action: str | None = Field(default=None, alias="nextAction")
    message: str | None = None
    error: str | None = None
    data: dict[str, Any] | None = None


class ToolMode(str, Enum):
    """How a call is treated when nothing else is declared."""

    READ = "read"
    SAFE_WRITE = "safe_write"
    DESTRUCTIVE = "destructive"
    LOCAL = "local"
    EXTERNAL = "external"


_PREFIXES: tuple[tuple[ToolMode, tuple[str, ...]], ...] = (
    (ToolMode.READ, ("get_", "list_", "read_", "search_")),
    (ToolMode.SAFE_WRITE, ("create_", "update_", "add_", "set_")),
    (ToolMode.DESTRUCTIVE, ("delete_", "remove_", "archive_", "drop_")),
    (ToolMode.LOCAL, ("local_", "shell_", "exec_")),
)


def decide_tool_mode(name: str) -> ToolMode | None:
    """Returns the mode that a tool's name suggests; ``None`` if it suggests none.

    A mode that is declared with ``@tool(mode=...)`` counts instead.
    """
    for mode, prefixes in _PREFIXES:
        if name.startswith(prefixes):
            return mode
    return None


def is_terminal_result(result: Mapping[str, Any]) -> bool:
    """Returns whether a result ends the run: it says so, or it failed and asks for no follow-up.

    Takes ``ToolResult.model_dump()``, with or without ``by_alias=True``.
    """
    if result.get("terminal") is True:
        return True
    followup = result.get("needsFollowup", result.get("needs_followup"))
    return result.get("success") is False and followup is not True
