"""Tools in Python with Haft's guarantees.

Decorate a function with :func:`tool` and give it to a :class:`Worker`. Haft decides what may run,
asks whoever has to be asked, records what happened and recovers after a crash; the worker only
runs the function.
"""

from ._client import ApiError, Call, Client
from ._context import Context
from ._errors import Cancelled, EffectUnknown, ToolError
from ._results import ToolCall, ToolMode, ToolResult, decide_tool_mode, is_terminal_result
from ._tool import UNKNOWN, Cost, Preview, Retry, Tool, Undo, argument, cost, result, tool, undo
from ._worker import Worker

__all__ = [
    "UNKNOWN",
    "ApiError",
    "Call",
    "Cancelled",
    "Client",
    "Context",
    "Cost",
    "EffectUnknown",
    "Preview",
    "Retry",
    "Tool",
    "ToolCall",
    "ToolError",
    "ToolMode",
    "ToolResult",
    "Undo",
    "Worker",
    "argument",
    "cost",
    "decide_tool_mode",
    "is_terminal_result",
    "result",
    "tool",
    "undo",
]
