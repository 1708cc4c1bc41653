"""A small MCP server over stdin and stdout, from a table of functions. The standard library only."""

import json
import sys


def serve(name, tools):
    """Serves `tools`: functions whose docstring is the description and whose parameters are texts."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        answer = {"jsonrpc": "2.0", "id": message["id"], **answered(name, tools, message)}
        print(json.dumps(answer), flush=True)


def answered(name, tools, message):
    given = message.get("params", {})
    match message["method"]:
        case "initialize":
            return {
                "result": {
                    "protocolVersion": given["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": name, "version": "1"},
                }
            }
        case "ping":
            return {"result": {}}
        case "tools/list":
            return {"result": {"tools": [described(function) for function in tools]}}
        case "tools/call":
            function = next(f for f in tools if f.__name__ == given["name"])
            text = function(**given.get("arguments", {}))
            return {"result": {"content": [{"type": "text", "text": text}]}}
        case other:
            return {"error": {"code": -32601, "message": f"no method {other}"}}


def described(function):
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return {
        "name": function.__name__,
        "description": function.__doc__,
        "inputSchema": {
            "type": "object",
            "properties": {name: {"type": "string"} for name in names},
            "required": list(names),
            "additionalProperties": False,
        },
    }
