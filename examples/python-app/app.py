"""An app on the official Anthropic SDK: its own database behind custom tools, and a note that the
agent may edit only after a yes. The server is killed while a tool's call waits for us.

    python examples/python-app/app.py

needs `pip install anthropic` and `haft` on the path (or its place in $HAFT).
"""

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile

import anthropic

KEY = "example-key"


class Server:
    """A `haft serve` of our own, which can be killed and started again over the same data."""

    def __init__(self):
        self.data = tempfile.mkdtemp(prefix="haft-example-")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        self.start()

    def start(self):
        command = [os.environ.get("HAFT", "haft"), "serve", "--listen", self.address]
        command += ["--data", self.data]
        environment = {**os.environ, "HAFT_API_KEY": KEY}
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        next(line for line in self.process.stdout if line.startswith("api"))

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=30)
        shutil.rmtree(self.data)


# [readme]
class Tools:
    """What runs in this program when the agent calls a custom tool: a method for each."""

    def __init__(self, database):
        self.database = database

    def ask_user(self, question):
        return self.looked_up("reader", "tone")

    def get_browser_language(self):
        return self.looked_up("language")

    def looked_up(self, *names):
        marks = ", ".join("?" for _ in names)
        rows = self.database.execute(
            f"SELECT name, value FROM profile WHERE name IN ({marks}) ORDER BY name DESC", names
        )
        return json.dumps(dict(rows.fetchall()))


def custom(name, description, **properties):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "custom", "name": name, "description": description, "input_schema": schema}


TOOLS = [
    {
        "type": "agent_toolset_20260401",
        "configs": [{"name": "edit", "permission_policy": {"type": "always_ask"}}],
    },
    custom("ask_user", "What the user wants. Use when in doubt.", question={"type": "string"}),
    custom("get_browser_language", "The user's language."),
]
# [/readme]


def run_until_idle(client, session, events):
    """Sends events and returns everything until the session waits for us or is done."""
    seen = []
    with client.beta.sessions.events.stream(session) as stream:
        client.beta.sessions.events.send(session, events=events)
        for event in stream:
            seen.append(event)
            if event.type == "session.status_idle":
                return seen


def answered(tools, event):
    """Runs a custom tool, or says yes to what waits for one."""
    if event.type == "agent.tool_use":
        print(f"may it {event.name} {event.input['file_path']}? yes")
        return {"type": "user.tool_confirmation", "tool_use_id": event.id, "result": "allow"}
    found = getattr(tools, event.name)(**event.input)
    print(f"{event.name} runs here: {found}")
    content = [{"type": "text", "text": found}]
    return {"type": "user.custom_tool_result", "custom_tool_use_id": event.id, "content": content}


def main():
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE profile (name, value)")
    profile = [("reader", "Ann"), ("tone", "plain"), ("language", "en")]
    database.executemany("INSERT INTO profile VALUES (?, ?)", profile)
    tools = Tools(database)
    server = Server()
    client = anthropic.Anthropic(base_url=f"http://{server.address}", api_key=KEY)
    environment = client.beta.environments.create(name="notes")
    agent = client.beta.agents.create(name="notes", model="scripted/demo", tools=TOOLS)
    session = client.beta.sessions.create(agent=agent.id, environment_id=environment.id).id

    ask = {"type": "user.message", "content": [{"type": "text", "text": "Write a note."}]}
    seen = run_until_idle(client, session, [ask])
    server.kill()
    print("the server dies while we are asked, and is started again")
    server.start()
    while seen[-1].stop_reason.type == "requires_action":
        waiting = seen[-1].stop_reason.event_ids
        answers = [answered(tools, event) for event in seen if event.id in waiting]
        seen = run_until_idle(client, session, answers)
    print(f"done: {seen[-1].stop_reason.type}")
    server.close()


if __name__ == "__main__":
    main()
