"""An MCP server whose tools take effect outside of Haft: each effect is a line in a file.

Each call is worked on in a thread of its own, so that one that hangs holds up no other.
"""
import json, os, sys, threading

LOCK = threading.Lock()
# Pays or does not, and then answers, hangs or takes the whole server down.
TOOLS = {
    "pay": (True, "answer"),
    "pay_and_hang": (True, "hang"),
    "hang": (False, "hang"),
    "pay_and_die": (True, "die"),
    "die": (False, "die"),
}


def say(message):
    with LOCK:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def note(path, token):
    with open(path, "a") as file:
        file.write(token + "\n")
        file.flush()
        os.fsync(file.fileno())


def call(request):
    token = request["params"]["arguments"]["token"]
    pays, then = TOOLS[request["params"]["name"]]
    if pays:
        note(os.environ["COUNTER"], token)
    # What was entered is known to whoever causes the fault, and is no effect.
    note(os.environ["COUNTER"] + ".entered", token)
    if then == "die":
        os._exit(1)
    if then == "hang":
        threading.Event().wait()
    say({"id": request["id"], "result": {"content": [{"type": "text", "text": "paid " + token}]}})


def described(name):
    schema = {"type": "object", "properties": {"token": {"type": "string"}}, "required": ["token"]}
    return {"name": name, "description": f"Does {name}.", "inputSchema": schema}


for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        info = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "counter", "version": "1"}}
        say({"id": message["id"], "result": info})
    elif method == "tools/list":
        say({"id": message["id"], "result": {"tools": [described(name) for name in TOOLS]}})
    elif method == "tools/call":
        threading.Thread(target=call, args=(message,), daemon=True).start()
    elif "id" in message and method:
        say({"id": message["id"], "error": {"code": -32601, "message": "unknown"}})
