//! `haft mcp`, `/mcp` and mounted servers, with the real binary.

#![expect(clippy::disallowed_methods, reason = "runs the binary")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::serving::{PATIENCE, Serving};

pub(crate) fn haft() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
    command.env_remove("HAFT_API_KEY").env_remove("HAFT_CONFIG");
    command.env("XDG_CONFIG_HOME", crate::agent::config_home());
    command
}

/// A data directory, and the configuration of a server whose calls are counted where they run.
pub(crate) struct Ground {
    pub(crate) directory: tempfile::TempDir,
}

impl Ground {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.directory.path().join("haft.toml")
    }

    /// Mounts the peer as a person would.
    pub(crate) fn mount(&self) {
        self.mount_with(&[]);
    }

    /// The same, with variables for it.
    pub(crate) fn mount_with(&self, env: &[&str]) {
        std::fs::write(self.config(), "").unwrap();
        let counter = format!("COUNTER={}", self.directory.path().join("counter").display());
        let peer = Path::new(env!("CARGO_MANIFEST_DIR")).join("../haft-mcp/tests/it/peer.py");
        let added = haft()
            .args(["mcp", "add", "peer", "--env", &counter])
            .args(env.iter().flat_map(|variable| ["--env", variable]))
            .arg("--config")
            .args([self.config().as_os_str(), "--".as_ref(), "python3".as_ref(), peer.as_ref()])
            .status();
        assert!(added.unwrap().success());
    }

    pub(crate) fn effects(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.directory.path().join("counter"));
        text.unwrap_or_default().lines().map(str::to_owned).collect()
    }

    pub(crate) fn key(&self, actor: &str, scopes: &[&str]) -> String {
        self.key_of("default", actor, scopes)
    }

    pub(crate) fn key_of(&self, tenant: &str, actor: &str, scopes: &[&str]) -> String {
        let mut command = haft();
        command.args(["keys", "create", "--tenant", tenant, "--actor", actor, "--data"]);
        command.arg(self.data());
        command.args(scopes.iter().flat_map(|scope| ["--scope", scope]));
        String::from_utf8(command.output().unwrap().stdout).unwrap().trim().to_owned()
    }

    /// What a command complains of where no server runs.
    fn alone(&self, args: &[&str]) -> String {
        let directory = self.directory.path();
        let output =
            haft().args(args).arg("--data").arg(self.data()).current_dir(directory).output();
        String::from_utf8(output.unwrap().stderr).unwrap()
    }

    pub(crate) fn serve(&self, key: &str, options: &[&str]) -> Serving {
        let config = self.config().display().to_string();
        Serving::start_with(&self.data(), Some(key), &[&["--config", &config], options].concat())
    }
}

/// A client of the current revision that has started `haft mcp`.
struct StdioClient {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl StdioClient {
    fn start(ground: &Ground, user: &str) -> Self {
        let mut process = haft()
            .args(["mcp", "--user", user, "--data"])
            .arg(ground.data())
            .arg("--root")
            .arg(ground.directory.path())
            .arg("--config")
            .arg(ground.config())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Self { process, to, from: BufReader::new(from) }
    }

    fn request(&mut self, method: &str, mut params: Value) -> Value {
        params["_meta"] = meta();
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.to.write_all(format!("{request}\n").as_bytes()).unwrap();
        loop {
            let mut line = String::new();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "it has gone");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer.get("id").is_some() {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Waits until a mounted server's tool is there.
    fn until_offered(&mut self, tool: &str) {
        until(|| {
            let listed = self.request("tools/list", json!({}));
            let tools = listed["tools"].as_array().unwrap();
            tools.iter().any(|known| known["name"] == tool).then_some(())
        });
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

pub(crate) fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "by-hand", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// Calls a tool over `/mcp`.
fn call_over_http(server: &Serving, key: &str, tool: &str, arguments: &Value) -> Value {
    let answer = answer_over_http(server, key, (tool, arguments), meta());
    assert!(answer["result"].is_object(), "{answer}");
    answer["result"].clone()
}

/// The same with metadata of the request; returns the whole answer.
#[expect(clippy::needless_pass_by_value, reason = "a literal is written where it is used")]
fn answer_over_http(
    server: &Serving,
    key: &str,
    (tool, arguments): (&str, &Value),
    meta: Value,
) -> Value {
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let headers = format!(
        "authorization: Bearer {key}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n\
         mcp-method: tools/call\r\nmcp-name: {tool}\r\n"
    );
    let (status, answer) = server.raw("POST", "/mcp", &headers, &body.to_string());
    assert_eq!(status, 200, "{answer}");
    answer
}

pub(crate) fn until<T>(mut find: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "it did not come to that");
        std::thread::sleep(Duration::from_millis(50));
    }
}

// Issue 8: the client dies, the server dies, somebody approves an hour later, another client
// picks the result up, and the effect is there once.
#[test]
fn a_gated_call_outlives_its_client_and_its_server_and_takes_effect_once() {
    let ground = Ground::new();
    ground.mount();
    let boss = ground.key("boss", &["admin"]);
    let ann = ground.key("ann", &["read", "write"]);
    let mut client = StdioClient::start(&ground, "ann");
    client.until_offered("peer_echo");
    let waits = client.call("peer_echo", &json!({"text": "paid"}));
    let handle = waits["_meta"]["haft/pending"]["handle"].as_str().unwrap().to_owned();
    client.kill();
    let (_, call) = handle.split_once('.').unwrap();
    let refused = ground.alone(&["approve", call]);
    assert!(refused.starts_with("error[no_tool]: the tool `peer_echo` is not here"), "{refused}");
    let listed = ground.alone(&["tools", "list"]);
    assert!(listed.starts_with("without the tools of `peer`: "), "{listed}");
    drop(ground.serve(&boss, &[]));
    assert_eq!(ground.effects(), [""; 0], "nothing ran unasked");

    let server = ground.serve(&boss, &["--clock-ahead", "1h"]);
    let waiting = server.get("/haft/v1/pending")["data"][0].clone();
    let (session, call) = (waiting["session"].as_str().unwrap(), waiting["call"].as_str().unwrap());
    assert_eq!(format!("{session}.{call}"), handle);
    let resolve = format!("/haft/v1/sessions/{session}/calls/{call}/resolve");
    server.post(&resolve, &json!({"type": "approve"}));
    let (status, late) = server.ask("POST", &resolve, &json!({"type": "deny"}));
    assert_eq!((status, &late["error"]["type"]), (409, &json!("conflict_error")), "{late}");
    let done = call_over_http(&server, &ann, "await_call", &json!({"handle": handle}));
    assert_eq!(done["content"][0]["text"], "paid", "{done}");
    drop(server);

    let mut client = StdioClient::start(&ground, "ann");
    let done = client.call("await_call", &json!({"handle": handle}));
    assert_eq!(done["content"][0]["text"], "paid", "{done}");
    client.kill();
    assert_eq!(ground.effects(), ["echo"], "once");
}

// E1: a call over MCP has a key, too. It holds across a kill, and for a call that has been done.
#[test]
fn a_call_over_mcp_with_a_key_is_made_once_also_through_a_kill() {
    let ground = Ground::new();
    ground.mount();
    let boss = ground.key("boss", &["admin"]);
    let mut server = ground.serve(&boss, &[]);
    let mut keyed = meta();
    keyed["haft/idempotencyKey"] = json!("order-17");
    let call = |server: &Serving, text: &str| {
        until(|| {
            let mounted = server.get("/haft/v1/mcp/servers/peer");
            (mounted["tools"]["echo"] == "peer_echo").then_some(())
        });
        let arguments = json!({ "text": text });
        answer_over_http(server, &boss, ("peer_echo", &arguments), keyed.clone())
    };
    let handle = |answer: &Value| {
        let handle = answer["result"]["_meta"]["haft/pending"]["handle"].as_str();
        handle.unwrap_or_else(|| panic!("it does not wait: {answer}")).to_owned()
    };
    let first = handle(&call(&server, "paid"));
    assert_eq!(handle(&call(&server, "paid")), first, "one call waits");
    drop(server);
    server = ground.serve(&boss, &[]);
    assert_eq!(handle(&call(&server, "paid")), first, "also after a kill");
    let pending = server.get("/haft/v1/pending");
    assert_eq!(pending["data"].as_array().unwrap().len(), 1, "{pending}");
    let reused = call(&server, "paid to someone else");
    assert_eq!(reused["error"]["data"]["code"], "idempotency_key_reused", "{reused}");
    let (session, id) = first.split_once('.').unwrap();
    let resolve = format!("/haft/v1/sessions/{session}/calls/{id}/resolve");
    server.post(&resolve, &json!({ "type": "approve" }));
    let done = until(|| {
        let answer = call(&server, "paid");
        (answer["result"]["content"][0]["text"] == "paid").then_some(answer)
    });
    assert!(done["result"]["isError"] != true, "{done}");
    assert_eq!(ground.effects(), ["echo"], "once");
}

// Issue 8: mounts are written down in `haft.toml`, and a running server follows it.
#[test]
fn a_running_server_mounts_what_is_added_and_lets_go_of_what_is_removed() {
    let ground = Ground::new();
    std::fs::write(ground.config(), "").unwrap();
    let boss = ground.key("boss", &["admin"]);
    let server = ground.serve(&boss, &[]);
    assert_eq!(server.get("/haft/v1/mcp/servers")["data"], json!([]));
    ground.mount();
    let mounted = until(|| {
        let mounted = server.get("/haft/v1/mcp/servers")["data"][0].clone();
        (mounted["tools"]["echo"] == "peer_echo").then_some(mounted)
    });
    assert_eq!(mounted["health"]["state"], "up");
    assert_eq!(mounted["origin"], "configured");
    let (status, refused) = server.ask("DELETE", "/haft/v1/mcp/servers/peer", &Value::Null);
    assert_eq!(status, 400, "{refused}");
    let removed = haft().args(["mcp", "remove", "peer", "--config"]).arg(ground.config()).status();
    assert!(removed.unwrap().success());
    until(|| (server.get("/haft/v1/mcp/servers")["data"] == json!([])).then_some(()));
}
