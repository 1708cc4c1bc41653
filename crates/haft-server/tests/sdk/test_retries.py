"""The SDK's own retries, through a server that is killed between its commit and its answer."""

import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import anthropic

from conftest import KEY, api_of, started, until


class LosingProxy:
    """Passes requests on to a server, and loses the answer to the first one that says a word.

    Before the answer is lost, the server is killed and started again: from the client's side that
    is a server that died after its commit and before its answer.
    """

    def __init__(self, upstream, word, restart):
        self.upstream, self.word, self.restart = upstream, word.encode(), restart
        self.lost = threading.Event()
        # A server ends with the thread that started it, so that thread must stay.
        self.keeper = ThreadPoolExecutor(max_workers=1)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.pass_on, args=(client,), daemon=True).start()

    def pass_on(self, client):
        try:
            with client:
                request = read_request(client)
                while request:
                    host, port = self.upstream().removeprefix("http://").split(":")
                    with socket.create_connection((host, int(port))) as server:
                        server.sendall(request)
                        first = server.recv(1)
                        if self.word in request and not self.lost.is_set():
                            self.keeper.submit(self.restart).result()
                            self.lost.set()
                            return
                        client.sendall(first)
                        while piece := server.recv(65536):
                            client.sendall(piece)
                    return
        except OSError:
            # Whoever is on either side tries again.
            return

    def close(self):
        self.listener.close()


def read_request(client):
    """Reads one request and has its answer end with the connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = client.recv(65536)
        if not piece:
            return b""
        data += piece
    head, body = data.split(b"\r\n\r\n", 1)
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    length = next(
        (int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length:")),
        0,
    )
    while len(body) < length:
        body += client.recv(65536)
    return b"\r\n".join([*lines, b"connection: close"]) + b"\r\n\r\n" + body


class Server:
    """A server that can be killed and started again on the same port."""

    def __init__(self, provider, data):
        self.environment = {
            **os.environ,
            "HAFT_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": provider.url,
            "ANTHROPIC_API_KEY": "fake",
        }
        self.data, self.listen = data, "127.0.0.1:0"
        self.start()

    def start(self):
        command = [os.environ["HAFT"], "serve", "--listen", self.listen, "--data", str(self.data)]
        self.running = started(command, env=self.environment)
        self.process = self.running.__enter__()
        self.url = api_of(self.process)
        self.listen = self.url.removeprefix("http://")

    def kill_and_start(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.start()

    def close(self):
        self.process.kill()
        self.process.wait()


# E1: one `events.send`, SIGKILL between commit and answer, the SDK's own retry.
def test_an_answer_lost_with_its_server_is_asked_for_again_and_done_once(provider, tmp_path):
    server = Server(provider, tmp_path)
    word = "the-word-that-is-said-once"
    proxy = LosingProxy(lambda: server.url, word, server.kill_and_start)
    try:
        client = anthropic.Anthropic(base_url=proxy.url, api_key=KEY)
        environment = client.beta.environments.create(name="once")
        agent = client.beta.agents.create(name="once", model="claude-opus-5-5", tools=[])
        session = client.beta.sessions.create(agent=agent.id, environment_id=environment.id)
        said = {"type": "user.message", "content": [{"type": "text", "text": word}]}
        sent = client.beta.sessions.events.send(session.id, events=[said])
        assert proxy.lost.is_set(), "the first answer was not lost"

        def messages():
            listed = client.beta.sessions.events.list(session.id)
            return [event for event in listed if event.type == "user.message"]

        def is_idle():
            return client.beta.sessions.retrieve(session.id).status == "idle"

        until(is_idle, "the session to be idle")
        assert [event.id for event in messages()] == [sent.data[0].id]
        listed = list(client.beta.sessions.events.list(session.id))
        answers = [event for event in listed if event.type == "agent.message"]
        assert len(answers) == 1, [event.type for event in listed]
    finally:
        proxy.close()
        server.close()


# E1: what a request makes is made once, also when its answer is lost.
def test_a_session_whose_answer_was_lost_is_opened_once(provider, tmp_path):
    server = Server(provider, tmp_path)
    title = "the-title-that-is-there-once"
    proxy = LosingProxy(lambda: server.url, title, server.kill_and_start)
    try:
        client = anthropic.Anthropic(base_url=proxy.url, api_key=KEY)
        environment = client.beta.environments.create(name="once")
        agent = client.beta.agents.create(name="once", model="claude-opus-5-5", tools=[])
        session = client.beta.sessions.create(
            agent=agent.id, environment_id=environment.id, title=title
        )
        assert proxy.lost.is_set(), "the first answer was not lost"
        listed = [listed.id for listed in client.beta.sessions.list()]
        assert listed == [session.id]
    finally:
        proxy.close()
        server.close()
