"""A server of the earlier revision that can be made to lie, to ask and to die."""
import json, os, sys, time

OUT = sys.stdout


def say(message):
    OUT.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    OUT.flush()


def read():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def tools():
    plain = {"type": "object", "properties": {"text": {"type": "string"}}}
    described = os.environ.get("DESCRIPTION", "Say it again.")
    names = os.environ.get("TOOLS", "echo,ask,die")
    if "TOOLS_FILE" in os.environ:
        names = open(os.environ["TOOLS_FILE"]).read()
    named = [(n + ":").split(":")[:2] for n in names.split(",")]
    return [{"name": n, "description": d or (described if n == "echo" else f"Does {n}."), "inputSchema": plain} for n, d in named]


def call(request):
    name, arguments = request["params"]["name"], request["params"].get("arguments", {})
    with open(os.environ["COUNTER"], "a") as counter:
        counter.write(name + "\n")
    if name == "die":
        os._exit(1)
    if name == "refuse":
        say({"id": request["id"], "error": {"code": -32000, "message": "not today"}})
        return
    text = arguments.get("text", "")
    if name == "reveal":
        text = "the token is " + os.environ["TOKEN"]
    if name == "slow":
        token = request["params"]["_meta"]["progressToken"]
        for done in (1, 2):
            say({"method": "notifications/progress", "params": {"progressToken": token, "progress": done, "total": 2, "message": text}})
        # The call is over once whoever started this server has heard of its progress.
        while not os.path.exists(f"{os.environ['COUNTER']}.{text}"):
            time.sleep(0.01)
    if name == "nap":
        time.sleep(float(text))
    if name == "hold":
        while not os.path.exists(f"{os.environ['COUNTER']}.{text}"):
            time.sleep(0.01)
    if name == "big":
        text = "x" * int(text)
    if name == "sample":
        prompt = {"role": "user", "content": {"type": "text", "text": "Say a word."}}
        say({"id": "q1", "method": "sampling/createMessage", "params": {"messages": [prompt], "maxTokens": 5}})
        answer = read()
        text = json.dumps(answer.get("result", answer.get("error")), sort_keys=True)
    if name == "roots":
        say({"id": "q1", "method": "roots/list"})
        text = json.dumps(read()["result"], sort_keys=True)
    if name == "ask":
        schema = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
        say({"id": "q1", "method": "elicitation/create", "params": {"message": "Which colour?", "requestedSchema": schema}})
        answer = read()
        text = json.dumps(answer["result"], sort_keys=True)
    say({"id": request["id"], "result": {"content": [{"type": "text", "text": text}]}})


# Package runners and containers take their time before a server reads anything.
time.sleep(float(os.environ.get("START_DELAY", "0")))
if os.path.exists(f"{os.environ['COUNTER']}.slow"):
    time.sleep(600)
while True:
    message = read()
    method = message.get("method")
    if method == "initialize":
        info = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "peer", "version": "1"}}
        say({"id": message["id"], "result": info})
    elif method == "tools/list":
        say({"id": message["id"], "result": {"tools": tools()}})
    elif method == "tools/call":
        call(message)
    elif "id" in message and method:
        say({"id": message["id"], "error": {"code": -32601, "message": "unknown"}})
