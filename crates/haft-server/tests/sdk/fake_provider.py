"""A local fake of Anthropic's Messages API: answers what it was told to answer, and remembers
what it was asked.

Each answer is a list of content blocks: {"text": ...} or {"tool": name, "input": {...}}.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FakeProvider:
    def __init__(self):
        self.answers = []
        self.requests = []
        self._lock = threading.Lock()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with fake._lock:
                    fake.requests.append(body)
                    answer = fake.answers.pop(0) if fake.answers else [{"text": "done"}]
                frames = b"".join(
                    f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()
                    for data in streamed(answer, body["model"])
                )
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("content-length", str(len(frames)))
                self.end_headers()
                self.wfile.write(frames)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def will_answer(self, *answers):
        with self._lock:
            assert not self.answers, "an earlier conversation has not heard all of its answers"
            self.answers = list(answers)
            self.requests.clear()

    def close(self):
        self._server.shutdown()


_counter = iter(range(1, 1_000_000))


def streamed(answer, model):
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {
        "id": f"msg_{next(_counter)}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield {"type": "message_start", "message": message}
    stop = "end_turn"
    for index, block in enumerate(answer):
        if "tool" in block:
            stop = "tool_use"
            start = {
                "type": "tool_use",
                "id": f"toolu_{next(_counter)}",
                "name": block["tool"],
                "input": {},
            }
            whole = json.dumps(block["input"])
            half = len(whole) // 2
            deltas = [
                {"type": "input_json_delta", "partial_json": part}
                for part in (whole[:half], whole[half:])
            ]
        else:
            start = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": word} for word in block["text"].split(" ")]
            for delta in deltas[:-1]:
                delta["text"] += " "
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": stop, "stop_sequence": None},
        "usage": {"output_tokens": 5},
    }
    yield {"type": "message_stop"}
