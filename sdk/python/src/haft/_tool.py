"""``@tool``: a function becomes a tool, and stays a function."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, ParamSpec, TypeVar, overload

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.fields import FieldInfo

from ._context import Context
from ._results import ToolMode

P = ParamSpec("P")
R = TypeVar("R")

Mode = Literal["read", "safe_write", "destructive", "local", "external"]
Approve = bool | Literal["always", "two"]


class _Unknown:
    """See :data:`UNKNOWN`."""

    def __repr__(self) -> str:
        return "haft.UNKNOWN"


#: What a ``verify`` function returns when it cannot tell whether the call took effect.
UNKNOWN = _Unknown()


@dataclass(frozen=True)
class Preview:
    """What a call would do. ``state`` is what that rests on: if it, the diff or the targets are
    different when the call runs, the approver is asked again."""

    diff: str | None = None
    targets: Sequence[str] = ()
    state: Any = None


@dataclass(frozen=True)
class _Source:
    kind: Literal["argument", "result"]
    pointer: str


def argument(pointer: str) -> Any:
    """A place in the arguments of the call that is taken back, such as ``/charge``."""
    return _Source("argument", pointer)


def result(pointer: str) -> Any:
    """A place in the result of the call that is taken back, such as ``/id``."""
    return _Source("result", pointer)


@dataclass(frozen=True)
class Undo:
    """How a call is taken back. Made by :func:`undo`."""

    tool: "Tool[..., Any] | str"
    within: str
    arguments: Mapping[str, Any]


def undo(tool: "Tool[..., Any] | str", *, within: str = "1h", **arguments: Any) -> Undo:
    """Says which tool takes a call back, until when, and with which arguments."""
    return Undo(tool, within, arguments)


@dataclass(frozen=True)
class Cost:
    """What a call costs. Made by :func:`cost`."""

    amount: str | int | float
    unit: str


def cost(amount: str | int | float, unit: str) -> Cost:
    """Says what a call costs: the name of the parameter that holds the amount, or a number, and
    the unit. Haft counts it towards the limits before the call runs."""
    return Cost(amount, unit)


@dataclass(frozen=True)
class Retry:
    """When a failed attempt is made again. Only for tools that may be repeated."""

    attempts: int
    backoff: str = "200ms"
    on: Sequence[str] = ("rate_limited", "timeout", "upstream")


@dataclass
class _Options:
    definition: dict[str, Any]
    verify: Callable[..., Any] | None = None
    preview: Callable[..., Any] | None = None
    undo: Undo | None = None
    fields: dict[str, Any] = field(default_factory=dict)


class Tool(Generic[P, R]):
    """A function with what is declared about it. Calling it calls the function."""

    def __init__(self, function: Callable[P, R], options: _Options) -> None:
        self.function = function
        self.verify = options.verify
        self.preview = options.preview
        self.undo = options.undo
        self.definition = options.definition
        self._arguments: type[BaseModel] = options.fields["model"]
        self._context: str | None = options.fields["context"]
        self.__name__ = getattr(function, "__name__", self.name)
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    @property
    def name(self) -> str:
        """What the tool is called."""
        return str(self.definition["name"])

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<haft tool {self.name}>"

    def bind(
        self, function: Callable[..., Any], arguments: Mapping[str, Any], context: Context
    ) -> Callable[[], Any]:
        """Checks arguments and returns the function with them and the context filled in."""
        read = self._arguments.model_validate(dict(arguments))
        given: dict[str, Any] = {
            name: getattr(read, name)
            for name in type(read).model_fields
            if name in read.model_fields_set
        }
        takes = inspect.signature(function).parameters
        wanted = {name: value for name, value in given.items() if name in takes}
        place = _context_parameter(function)
        if place is not None:
            wanted[place] = context
        return lambda: function(**wanted)


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    mode: Mode | ToolMode | None = None,
    approve: Approve | None = None,
    key: bool = False,
    idempotent: bool = False,
    verify: Callable[..., Any] | None = None,
    preview: Callable[..., Any] | None = None,
    undo: Undo | None = None,
    cost: Cost | None = None,
    timeout: str | float | None = None,
    suspend: str | float | None = None,
    retry: Retry | int | None = None,
    secret: Sequence[str] = (),
    exclusive: bool = False,
    title: str | None = None,
    tags: Sequence[str] = (),
    version: str | None = None,
    interrupt: Literal["block", "cancel"] = "cancel",
    concurrency: int | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Makes a function a tool, bare or with options.

    The type hints make the schema, the docstring the description; an ``Args:`` section describes
    the parameters. A parameter of type :class:`Context` is injected.

    - ``mode``: what the tool does, as :class:`ToolMode`; without it the name decides.
    - ``approve``: ``True`` asks a person, ``"always"`` each time whatever is granted, ``"two"``
      two people, ``False`` nobody.
    - ``key``: the other side applies the call once for each ``Context.key``, so it may be run
      again after a crash. ``idempotent``: running it twice changes nothing more.
    - ``verify``: takes the same arguments and finds out whether an interrupted call took effect.
      Returns its result, ``None`` if it did not take effect, or :data:`UNKNOWN`.
    - ``preview``: takes the same arguments and returns a text or a :class:`Preview` of what the
      call would do.
    - ``undo``, ``cost``: see :func:`undo` and :func:`cost`.
    - ``timeout``, ``suspend``: how long a call may run, and wait for somebody: ``"20s"``, ``"7d"``.
    - ``secret``: names of parameters that are never recorded.
    """
    if function is not None:
        return _made(function, {})
    return lambda decorated: _made(decorated, options)


_MODES: dict[str, dict[str, Any]] = {
    "read": {"mutates": "none"},
    "safe_write": {"mutates": "bounded"},
    "destructive": {"mutates": "irreversible"},
    "local": {},
    # What calls an outside service may pay, send or order there, so it is never repeated by itself.
    "external": {"mutates": "irreversible", "reach": ["external_service", "network"]},
}

_GATES: dict[Any, str] = {True: "ask", False: "auto", "always": "ask_always", "two": "ask_two"}


def _made(function: Callable[..., Any], options: dict[str, Any]) -> Tool[..., Any]:
    model, context = _model(function)
    name = options.get("name") or function.__name__
    description, parameters = _described(function)
    description = options.get("description") or description
    if not description:
        raise TypeError(f"tool `{name}` has no docstring; the model needs to read what it does")
    schema = _inlined(model.model_json_schema())
    for parameter, text in parameters.items():
        place = schema.get("properties", {}).get(parameter)
        if place is not None:
            place.setdefault("description", text)
    definition: dict[str, Any] = {"name": name, "description": description, "input_schema": schema}
    _declare(definition, options)
    made = _Options(
        definition=definition,
        verify=options.get("verify"),
        preview=options.get("preview"),
        undo=options.get("undo"),
        fields={"model": model, "context": context},
    )
    return Tool(function, made)


def _declare(definition: dict[str, Any], options: dict[str, Any]) -> None:
    facets: dict[str, Any] = {}
    mode = options.get("mode")
    if mode is not None:
        mode = mode.value if isinstance(mode, ToolMode) else mode
        if mode not in _MODES:
            raise TypeError(f"mode: expected one of {', '.join(_MODES)}, found {mode!r}")
        if mode == "external":
            definition["category"] = "side_effect"
        else:
            definition["mode"] = mode
        facets.update(_MODES[mode])
    if options.get("key") and options.get("idempotent"):
        raise TypeError("`key` and `idempotent` say two different things; declare one of them")
    if options.get("key"):
        facets["idempotency"] = "keyed"
    if options.get("idempotent"):
        facets["idempotency"] = "idempotent"
    if options.get("approve") is not None:
        definition["gate"] = _GATES[options["approve"]]
    if (price := options.get("cost")) is not None:
        facets["spend"] = "possible"
        fixed = isinstance(price.amount, (int, float))
        amount = {"always": str(price.amount)} if fixed else {"field": f"/{price.amount}"}
        definition["cost"] = {"amount": amount, "unit": {"always": price.unit}}
    if facets:
        definition["facets"] = facets
    hooks = [hook for hook in ("preview", "verify") if options.get(hook) is not None]
    if hooks:
        definition["hooks"] = hooks
    if (back := options.get("undo")) is not None:
        definition["undo"] = {
            "tool": back.tool if isinstance(back.tool, str) else back.tool.name,
            "arguments": {name: _source(value) for name, value in back.arguments.items()},
            "window": _millis(back.within),
        }
    _declare_limits(definition, options)


def _declare_limits(definition: dict[str, Any], options: dict[str, Any]) -> None:
    for option, member in (("timeout", "exec_timeout"), ("suspend", "suspend_ttl")):
        if options.get(option) is not None:
            definition[member] = _millis(options[option])
    if (again := options.get("retry")) is not None:
        again = Retry(again) if isinstance(again, int) else again
        definition["retry"] = {
            "max_attempts": again.attempts,
            "backoff": _millis(again.backoff),
            "backoff_max": 30_000,
            "on": sorted(again.on),
        }
    if options.get("secret"):
        definition["redaction"] = {"secret": [f"/{name}" for name in options["secret"]]}
    if options.get("exclusive"):
        definition["concurrency"] = "exclusive"
    if options.get("title"):
        definition["display"] = {"label": options["title"]}
    if options.get("tags"):
        definition["tags"] = list(options["tags"])
    if options.get("version"):
        definition["version"] = options["version"]
    if options.get("concurrency") is not None:
        pool = {"name": f"tool/{definition['name']}", "limit": options["concurrency"]}
        definition["pools"] = [pool]
    definition["interrupt"] = options.get("interrupt", "cancel")


def _source(value: Any) -> dict[str, Any]:
    if isinstance(value, _Source):
        return {value.kind: value.pointer}
    return {"literal": value}


_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def _millis(value: str | float) -> int:
    """Reads a time: seconds as a number, or a text such as ``200ms``, ``20s``, ``15m``, ``7d``."""
    if isinstance(value, (int, float)):
        return int(value * 1000)
    found = re.fullmatch(r"(\d+)(ms|s|m|h|d)", value)
    if found is None:
        raise TypeError(f"expected a time such as `200ms`, `20s`, `15m`, `2h` or `7d`, found {value!r}")
    return int(found[1]) * _UNITS[found[2]]


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    return typing.get_type_hints(function, include_extras=True)


def _context_parameter(function: Callable[..., Any]) -> str | None:
    for name, hint in _hints(function).items():
        found = _bare(hint)
        if name != "return" and inspect.isclass(found) and issubclass(found, Context):
            return name
    return None


def _bare(hint: Any) -> Any:
    """Returns what is in ``Annotated[…]`` and ``Optional[…]``."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _bare(inner[0])
    if origin in (typing.Union, types.UnionType):
        some = [each for each in inner if each is not type(None)]
        return _bare(some[0]) if len(some) == 1 else hint
    return hint


def _model(function: Callable[..., Any]) -> tuple[type[BaseModel], str | None]:
    """Makes a model of a function's parameters, and says which of them is the context."""
    hints, context = _hints(function), _context_parameter(function)
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name == context:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"`{function.__name__}`: `{name}` cannot be given by name, as a model does")
        if name.startswith("_"):
            advice = f"call it `{name.lstrip('_') or 'value'}`"
            raise TypeError(f"`{function.__name__}`: a model cannot be shown a parameter `{name}`; {advice}")
        if name.startswith("model_") and hasattr(BaseModel, name):
            advice = f"call it something else, such as `{name.removeprefix('model_')}`"
            raise TypeError(f"`{function.__name__}`: Pydantic keeps the name `{name}` for itself; {advice}")
        if name not in hints:
            raise TypeError(f"`{function.__name__}`: `{name}` has no type hint, which makes the schema")
        default = parameter.default
        if default is inspect.Parameter.empty:
            default = ...
        elif not isinstance(default, FieldInfo):
            default = Field(default=default)
        fields[name] = (hints[name], default)
    forbids = ConfigDict(extra="forbid", arbitrary_types_allowed=False, protected_namespaces=())
    model = create_model(function.__name__, __config__=forbids, **fields)
    return model, context


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """Puts definitions where they are referred to: some models read no references. One that
    refers to itself stays a reference."""
    definitions = schema.pop("$defs", {})

    def put(value: Any, within: tuple[str, ...]) -> Any:
        if isinstance(value, list):
            return [put(item, within) for item in value]
        if not isinstance(value, dict):
            return value
        name = str(value.get("$ref", "")).removeprefix("#/$defs/")
        if name in definitions and name not in within:
            rest = {key: item for key, item in value.items() if key != "$ref"}
            return {**put(definitions[name], (*within, name)), **put(rest, within)}
        return {key: put(item, within) for key, item in value.items() if key != "title" or not isinstance(item, str)}

    inlined: dict[str, Any] = put(schema, ())
    if "#/$defs/" in repr(inlined):
        inlined["$defs"] = definitions
    return inlined


def _described(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Splits a docstring into the description and what its ``Args:`` section says."""
    text = inspect.getdoc(function) or ""
    description, section, described = [], "", {}
    name = ""
    for line in text.splitlines():
        heading = re.fullmatch(r"(Args|Arguments|Parameters|Returns|Raises|Yields|Example|Examples):\s*", line)
        if heading is not None:
            section = heading[1]
        elif section in ("Args", "Arguments", "Parameters"):
            found = re.match(r"\s+(\w+)(?:\s*\([^)]*\))?:\s*(.*)", line)
            if found is not None:
                name = found[1]
                described[name] = found[2].strip()
            elif name and line.strip():
                described[name] = f"{described[name]} {line.strip()}".strip()
        elif not section:
            description.append(line)
    return "\n".join(description).strip(), described
