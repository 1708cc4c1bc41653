"""A model that calls what it is told: each message is the input of one call of `bash`, or names
another tool as `{"tool": …, "input": …}`."""
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

sys.path.insert(0, sys.argv[1])
from fake_provider import streamed


def answer(body):
    said = body["messages"][-1]["content"]
    blocks = [{"type": "text", "text": said}] if isinstance(said, str) else said
    if any(block["type"] == "tool_result" for block in blocks):
        return [{"text": "done"}]
    # The runtime's own notes stand beside what the person said.
    told = next(json.loads(text) for block in reversed(blocks) if (text := block["text"]).startswith("{"))
    return [told if "tool" in told else {"tool": "bash", "input": told}]


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        frames = b"".join(
            f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()
            for data in streamed(answer(body), body["model"])
        )
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(frames)))
        self.end_headers()
        self.wfile.write(frames)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
server.serve_forever()
