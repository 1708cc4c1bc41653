//! Programs of mounted servers in a sandbox, and where servers that admins add may be.

use std::path::Path;

use serde_json::json;

use crate::commands::haft;
use crate::mcp::{Ground, until};
use crate::serving::Serving;

/// A server whose one tool reads a file, writes one or calls an address, and tells what came of it.
const SERVER: &str = r#"
import json, os, sys, urllib.request
TOOL = {"name": "try", "description": "Tries a thing. Use when testing.", "inputSchema": {
    "type": "object", "properties": {"what": {"type": "string"}, "of": {"type": "string"}},
    "required": ["what", "of"]}}

def tried(what, of):
    try:
        if what == "read":
            return open(of).read()
        if what == "write":
            open(of, "w").write("written")
            return "written"
        if what == "env":
            return os.environ.get(of, "unset")
        return urllib.request.urlopen(of, timeout=20).read().decode()
    except Exception as error:
        return f"refused: {error}"

for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    given = asked.get("params", {})
    answers = {
        "initialize": lambda: {"protocolVersion": given["protocolVersion"],
            "capabilities": {"tools": {}}, "serverInfo": {"name": "tries", "version": "1"}},
        "tools/list": lambda: {"tools": [TOOL]},
        "tools/call": lambda: {"content": [{"type": "text", "text": tried(**given["arguments"])}]},
    }
    if asked["method"] in answers:
        answer = {"result": answers[asked["method"]]()}
    else:
        answer = {"error": {"code": -32601, "message": "no such method"}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"#;

/// Calls the server's tool, approves that, and returns what it tells.
fn tried(data: &Path, server: &Serving, what: &str, of: &str) -> String {
    let arguments = json!({ "arguments": { "what": what, "of": of } });
    let waiting = server.post("/haft/v1/tools/tries_try/call", &arguments);
    let call = waiting["call"].as_str().unwrap();
    let approved = haft(data, &["approve", call, "--json"]);
    assert_eq!(approved.code, 0, "{}", approved.stderr);
    let outcome = approved.json();
    outcome["outcome"]["result"]["ok"].to_string()
}

#[test]
fn a_sandboxed_server_sees_its_roots_and_reaches_its_hosts_and_nothing_else() {
    let ground = Ground::new();
    let place = ground.directory.path();
    for directory in ["code", "notes", "outside"] {
        std::fs::create_dir(place.join(directory)).unwrap();
    }
    std::fs::write(place.join("code/server.py"), SERVER).unwrap();
    std::fs::write(place.join("outside/secret"), "CANARY").unwrap();
    let at = |name: &str| place.join(name).display().to_string();
    let config = format!(
        "[mcp.servers.tries]\ncommand = [\"python3\", \"/code/server.py\"]\nsandbox = true\n\
         env = {{ GIVEN = \"this\" }}\n\
         roots = [{{ host = \"{}\", at = \"/code\" }}, \
                  {{ host = \"{}\", at = \"/notes\", write = true }}]\n\
         networking = {{ type = \"limited\", allowed_hosts = [\"docs.example\"] }}\n",
        at("code"),
        at("notes"),
    );
    std::fs::write(ground.config(), config).unwrap();
    let boss = ground.key("boss", &["admin"]);
    let server = ground.serve(&boss, &[]);
    let shown = || server.get("/haft/v1/mcp/servers/tries");
    until(|| shown()["tools"]["try"].is_string().then_some(()));
    assert_eq!(shown()["peer"]["sandbox"], true);
    let data = ground.data();
    let says = |what: &str, of: &str| tried(&data, &server, what, of);
    assert!(says("write", "/notes/a").contains("written"));
    assert_eq!(std::fs::read_to_string(place.join("notes/a")).unwrap(), "written");
    assert!(says("env", "GIVEN").contains("this"));
    for (what, of) in [
        ("read", at("outside/secret")),
        ("read", data.join("haft.db").display().to_string()),
        ("read", "/etc/shadow".to_owned()),
        ("write", "/code/server.py".to_owned()),
        ("get", format!("http://{}/healthz", server.address)),
        ("get", "http://other.example/".to_owned()),
    ] {
        let said = says(what, &of);
        assert!(said.contains("refused") && !said.contains("CANARY"), "{what} {of}: {said}");
    }
    let listed = haft(&data, &["mcp", "list"]);
    assert!(listed.stdout.contains("(sandboxed)"), "{} {}", listed.stdout, listed.stderr);
}

#[test]
fn it_is_said_plainly_which_programs_are_not_sandboxed() {
    let ground = Ground::new();
    ground.mount();
    let boss = ground.key("boss", &["admin"]);
    let server = ground.serve(&boss, &[]);
    assert_eq!(server.get("/haft/v1/mcp/servers/peer")["peer"]["sandbox"], false);
    let listed = haft(&ground.data(), &["mcp", "list"]);
    assert!(listed.stdout.contains("NOT sandboxed"), "{} {}", listed.stdout, listed.stderr);
}

#[test]
fn what_makes_no_sense_for_a_sandbox_is_refused_by_name() {
    let place = tempfile::tempdir().unwrap();
    let refused = |text: &str| {
        std::fs::write(place.path().join("haft.toml"), text).unwrap();
        let run = haft(place.path(), &["doctor"]);
        format!("{}{}", run.stdout, run.stderr)
    };
    let url = refused("[mcp.servers.a]\nurl = \"https://a.example/\"\nsandbox = true\n");
    assert!(url.contains("`sandbox` is for a server with"), "{url}");
    let roots =
        refused("[mcp.servers.a]\ncommand = [\"x\"]\nroots = [{ host = \"/a\", at = \"/a\" }]\n");
    assert!(roots.contains("`roots` is for a server with"), "{roots}");
    let hosts = refused(
        "[mcp.servers.a]\ncommand = [\"x\"]\nsandbox = true\n\
         networking = { type = \"limited\", allowed_hosts = [\"http://x\"] }\n",
    );
    assert!(hosts.contains("http://x"), "{hosts}");
}

#[test]
fn no_root_of_a_sandboxed_server_shows_haft_its_own_state() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    std::fs::create_dir_all(data.join("workspaces")).unwrap();
    let beside = place.path().join("beside");
    std::fs::create_dir(&beside).unwrap();
    let run = |root: &Path| {
        let confinement = json!({ "roots": [{ "host": root, "at": "/seen" }], "networking": null });
        let data = data.to_str().unwrap();
        let words = ["mcp", "confined", "--confinement", &confinement.to_string(), "--data", data];
        haft(place.path(), &[&words[..], &["--", "ls", "/seen"]].concat())
    };
    for root in [place.path(), &data, &data.join("workspaces")] {
        let refused = run(root);
        assert_ne!(refused.code, 0, "{}", refused.stdout);
        assert!(refused.stderr.contains("shows the data directory"), "{}", refused.stderr);
    }
    let fine = run(&beside);
    assert_eq!((fine.code, fine.stdout.as_str()), (0, ""), "{}", fine.stderr);
}

/// X16: an admin who adds a server over HTTP does not lead this node into its own network.
#[test]
fn x16_a_server_that_an_admin_adds_is_on_the_public_internet() {
    let ground = Ground::new();
    std::fs::write(ground.config(), "").unwrap();
    let boss = ground.key("boss", &["admin"]);
    let server = ground.serve(&boss, &[]);
    for url in [format!("http://{}/mcp", server.address), "http://169.254.169.254/mcp".to_owned()] {
        let body = json!({ "name": "inner", "url": url });
        let (status, answer) = server.ask("POST", "/haft/v1/mcp/servers", &body);
        assert!(status >= 400, "{answer}");
        assert!(answer.to_string().contains("not an address of the public internet"), "{answer}");
    }
    drop(server);
    let server = ground.serve(&boss, &["--mcp-allow-private"]);
    let url = format!("http://{}/mcp", server.address);
    let headers = json!({});
    let body = json!({ "name": "inner", "url": url, "headers": headers });
    let (_, answer) = server.ask("POST", "/haft/v1/mcp/servers", &body);
    assert!(!answer.to_string().contains("public internet"), "{answer}");
}
