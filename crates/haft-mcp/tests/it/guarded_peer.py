"""An MCP server of the earlier revision that lets in only who was authorized, and the
authorization server for it. A person who comes to `/authorize` says yes at once. Whoever is sent
back to `/fleeting` is given a token that has to be refreshed at once, which succeeds once: when
somebody has been at `/release`, and whoever names a scope is refused. `/refreshing` says how many
have tried. Once somebody has been at `/forget`, nothing says any more who gives tokens."""
import base64, hashlib, json, sys, threading, urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "CANARY-token-51c7"
CODES = {}
REFRESHED = []
RELEASED = threading.Event()
FORGOTTEN = threading.Event()


class Peer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    @property
    def here(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def say(self, status, body=None, **headers):
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if body is not None:
            self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        url = urllib.parse.urlparse(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if url.path.startswith("/.well-known/") and FORGOTTEN.is_set():
            self.say(404)
        elif url.path.startswith("/.well-known/oauth-protected-resource"):
            self.say(200, {"resource": f"{self.here}/mcp", "authorization_servers": [self.here]})
        elif url.path == "/.well-known/oauth-authorization-server":
            ends = {f"{end}_endpoint": f"{self.here}/{path}" for end, path in [("authorization", "authorize"), ("token", "token"), ("registration", "register")]}
            self.say(200, {"issuer": self.here, **ends, "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"]})
        elif url.path == "/authorize":
            CODES["one-code"] = query
            back = urllib.parse.urlencode({"code": "one-code", "state": query["state"]})
            self.say(302, location=f"{query['redirect_uri']}?{back}")
        elif url.path == "/refreshing":
            self.say(200, {"tries": len(REFRESHED)})
        elif url.path == "/forget":
            FORGOTTEN.set()
            self.say(200, {})
        elif url.path == "/release":
            RELEASED.set()
            self.say(200, {})
        else:
            self.say(405 if url.path == "/mcp" else 404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/register":
            self.say(201, {"client_id": "haft-here", "redirect_uris": json.loads(body)["redirect_uris"]})
        elif self.path == "/token":
            given = dict(urllib.parse.parse_qsl(body.decode()))
            if given["grant_type"] == "refresh_token":
                return self.refresh(given["refresh_token"], given.get("scope"))
            asked = CODES.pop(given["code"])
            digest = hashlib.sha256(given["code_verifier"].encode()).digest()
            assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == asked["code_challenge"]
            assert given["redirect_uri"] == asked["redirect_uri"], given
            is_fleeting = asked["redirect_uri"].endswith("/fleeting")
            more = {"expires_in": 1, "refresh_token": "CANARY-refresh-1", "scope": "read"} if is_fleeting else {}
            self.say(200, {"access_token": TOKEN, "token_type": "Bearer", **more})
        elif self.headers.get("authorization") != f"Bearer {TOKEN}":
            self.say(401, {}, WWW_Authenticate=f'Bearer resource_metadata="{self.here}/.well-known/oauth-protected-resource/mcp"')
        else:
            self.answer(json.loads(body))

    def refresh(self, token, scope):
        REFRESHED.append(token)
        if scope is not None:
            return self.say(400, {"error": "invalid_scope"})
        if len(REFRESHED) > 1:
            return self.say(400, {"error": "invalid_grant"})
        RELEASED.wait()
        given = {"refresh_token": "CANARY-refresh-2", "expires_in": 3600}
        self.say(200, {"access_token": TOKEN, "token_type": "Bearer", **given})

    def answer(self, message):
        method = message.get("method")
        if "id" not in message:
            return self.say(202)
        if method == "initialize":
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "guarded", "version": "1"}}
        elif method == "tools/list":
            result = {"tools": [{"name": "reveal", "description": "Says its token.", "inputSchema": {"type": "object"}}]}
        elif method == "tools/call":
            result = {"content": [{"type": "text", "text": f"it is {self.headers['authorization']}"}]}
        else:
            return self.say(200, {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "unknown"}})
        self.say(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})


server = ThreadingHTTPServer(("127.0.0.1", 0), Peer)
print(f"http://127.0.0.1:{server.server_port}/mcp", flush=True)
server.serve_forever()
