"""The decorator: schema, description, options, and a function that stays one."""

from __future__ import annotations

import asyncio
import http.server
import threading
from typing import Annotated, Literal, Optional

import pytest
from pydantic import BaseModel, Field

import haft


class Line(BaseModel):
    sku: str
    count: int = 1


@haft.tool
def get_weather(city: str, unit: Literal["C", "F"] = "C") -> str:
    """Current weather for a city.

    Args:
        city: City name, such as Oslo.
        unit: Which scale
            to use.
    """
    return f"{city}: 5 {unit}"


@haft.tool(mode="safe_write", approve="two", timeout="20s", suspend="7d", secret=["token"], retry=None)
async def order(
    lines: list[Line], cents: Annotated[int, Field(ge=1)], token: str, context: haft.Context
) -> int:
    """Orders something."""
    return len(lines) * cents


def test_type_hints_make_the_schema_and_the_docstring_the_description() -> None:
    definition = get_weather.definition
    assert definition["description"] == "Current weather for a city."
    schema = definition["input_schema"]
    assert schema["required"] == ["city"] and schema["additionalProperties"] is False
    assert schema["properties"]["city"] == {"type": "string", "description": "City name, such as Oslo."}
    assert schema["properties"]["unit"]["enum"] == ["C", "F"]
    assert schema["properties"]["unit"]["description"] == "Which scale to use."


def test_models_are_inlined_and_the_context_is_injected() -> None:
    schema = order.definition["input_schema"]
    assert set(schema["properties"]) == {"lines", "cents", "token"} and "$defs" not in schema
    assert schema["properties"]["lines"]["items"]["properties"]["sku"] == {"type": "string"}
    assert schema["properties"]["cents"]["minimum"] == 1
    bound = order.bind(order.function, {"lines": [{"sku": "a"}], "cents": 3, "token": "x"}, haft.Context())
    assert asyncio.run(bound()) == 3


def test_options_are_declared() -> None:
    definition = order.definition
    assert definition["gate"] == "ask_two" and definition["mode"] == "safe_write"
    assert (definition["exec_timeout"], definition["suspend_ttl"]) == (20_000, 7 * 86_400_000)
    assert definition["redaction"] == {"secret": ["/token"]}
    assert definition["facets"] == {"mutates": "bounded"}


def test_the_function_stays_callable() -> None:
    assert get_weather("Oslo") == "Oslo: 5 C"
    assert get_weather.__name__ == "get_weather"


@pytest.mark.parametrize("wrong", [lambda: haft.tool(mode="fast"), lambda: haft.tool(timeout="soon")])  # type: ignore[call-overload]
def test_what_is_wrong_is_refused_where_it_is_written(wrong: object) -> None:
    def f(a: int) -> int:
        """Does."""
        return a

    with pytest.raises(TypeError):
        wrong()(f)  # type: ignore[operator]


def test_a_tool_without_description_or_type_is_refused() -> None:
    with pytest.raises(TypeError, match="docstring"):
        haft.tool(lambda: 1)
    with pytest.raises(TypeError, match="type hint"):

        @haft.tool
        def untyped(a) -> int:  # type: ignore[no-untyped-def]
            """Does."""
            return 1


def test_a_parameter_that_a_model_cannot_be_shown_is_refused() -> None:
    def hidden(_a: int) -> int:
        """Does."""
        return _a

    def config(model_config: str, b: int = 0) -> int:
        """Does."""
        return b

    with pytest.raises(TypeError, match="call it `a`"):
        haft.tool(hidden)
    with pytest.raises(TypeError, match="something else"):
        haft.tool(config)


def test_a_context_is_found_in_optional_and_annotated() -> None:
    @haft.tool
    def maybe(a: int, context: haft.Context | None = None) -> str:
        """Does."""
        return context.key if context else ""

    @haft.tool
    def noted(a: int, context: Annotated[Optional[haft.Context], "whose"]) -> str:
        """Does."""
        return context.key if context else ""

    for each in (maybe, noted):
        assert list(each.definition["input_schema"]["properties"]) == ["a"]
        assert each.bind(each.function, {"a": 1}, haft.Context(key="k"))() == "k"


def test_every_request_but_get_has_a_key_that_its_retries_share() -> None:
    seen: list[tuple[str, str | None]] = []

    class Losing(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append((self.command, self.headers.get("idempotency-key")))
            if len(seen) > 1:
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()
            self.close_connection = True

        do_GET = do_DELETE = do_POST

        def log_message(self, *_: object) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Losing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = haft.Client(f"http://127.0.0.1:{server.server_port}", "k")
        client.request("POST", "/x", {})
        client.request("DELETE", "/x")
        client.request("GET", "/x")
        server.shutdown()
    assert [method for method, _ in seen] == ["POST", "POST", "DELETE", "GET"]
    first, again, other, read = [key for _, key in seen]
    assert first and first == again and other and other != first and read is None


def test_modes_and_terminal_results() -> None:
    assert haft.decide_tool_mode("list_files") is haft.ToolMode.READ
    assert haft.decide_tool_mode("drop_table") is haft.ToolMode.DESTRUCTIVE
    assert haft.decide_tool_mode("getaway") is None
    failed = haft.ToolResult(success=False, error="x")
    assert haft.is_terminal_result(failed.model_dump())
    healing = haft.ToolResult(success=False, needsFollowup=True)
    assert not haft.is_terminal_result(healing.model_dump())
    assert not haft.is_terminal_result(healing.model_dump(by_alias=True))
    assert haft.is_terminal_result({"success": True, "terminal": True})
    assert not haft.is_terminal_result({"success": True})
    with pytest.raises(ValueError):
        haft.ToolCall.model_validate({"id": "1", "name": "x", "arguments": {}, "more": 1})
