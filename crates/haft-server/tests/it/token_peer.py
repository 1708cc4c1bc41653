"""A token endpoint. A refresh token is good once: `CANARY-refresh-ann-1` gives `CANARY-ann-2`, with
`CANARY-refresh-ann-2` for the next time, good for an hour; bob's for a second. Any other one is an
`invalid_grant`. What it is asked is written to the file that it is given; while there is a file
`held` beside that one, nobody is answered."""
import base64, json, os, sys, time, urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

USED = set()


class Peer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def say(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        asked = dict(urllib.parse.parse_qsl(body))
        shown = self.headers.get("authorization", "").removeprefix("Basic ")
        asked["basic"] = base64.b64decode(shown).decode()
        with open(sys.argv[1], "a") as done:
            done.write(json.dumps(asked) + "\n")
        # Long enough for whoever asks at the same time.
        time.sleep(0.3)
        while os.path.exists(os.path.join(os.path.dirname(sys.argv[1]), "held")):
            time.sleep(0.01)
        token = asked["refresh_token"]
        is_good = token.startswith("CANARY-refresh-") and token not in USED
        if asked["grant_type"] != "refresh_token" or not is_good:
            return self.say(400, {"error": "invalid_grant", "error_description": f"{token} is over"})
        USED.add(token)
        name, n = token.removeprefix("CANARY-refresh-").split("-")
        given = {"access_token": f"CANARY-{name}-{int(n) + 1}", "token_type": "Bearer"}
        given["refresh_token"] = f"CANARY-refresh-{name}-{int(n) + 1}"
        given["expires_in"] = 1 if name == "bob" else 3600
        self.say(200, given)


server = ThreadingHTTPServer(("127.0.0.1", 0), Peer)
print(f"http://127.0.0.1:{server.server_port}/token", flush=True)
server.serve_forever()
