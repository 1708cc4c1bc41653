//! `haft serve` over real HTTP, with the scripted demo agent that a fresh install has.

#![expect(clippy::disallowed_methods, reason = "runs the binary")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A running server, killed when it is dropped.
struct Serving {
    process: Child,
    address: String,
    key: String,
}

impl Serving {
    /// Starts a server over a directory; the key is the one shown at the first start.
    fn start(data: &Path, key: Option<&str>) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_haft"))
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .env_remove("HAFT_API_KEY")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
        let api = said.by_ref().map(Result::unwrap).find(|line| line.starts_with("api")).unwrap();
        let address = api.split_once("http://").unwrap().1.trim_end_matches("/v1").to_owned();
        let key = match key {
            Some(key) => key.to_owned(),
            None => {
                let mut lines = said.by_ref().map(Result::unwrap);
                let line = lines.find(|line| line.starts_with("key")).unwrap();
                line.split_whitespace().nth(1).unwrap().to_owned()
            }
        };
        Self { process, address, key }
    }

    fn connect(&self, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let (address, length) = (&self.address, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             content-length: {length}\r\n{headers}\r\n{body}"
        );
        connection.write_all(request.as_bytes()).unwrap();
        connection
    }

    fn raw(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, Value) {
        let mut answer = String::new();
        self.connect(method, path, headers, body).read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.raw(method, path, &format!("x-api-key: {}\r\n", self.key), &body)
    }

    fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path, &Value::Null);
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let (status, body) = self.ask("POST", path, body);
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    fn session(&self) -> String {
        let wanted = json!({ "agent": "agent_demo", "environment_id": "env_demo" });
        self.post("/v1/sessions", &wanted)["id"].as_str().unwrap().to_owned()
    }

    fn send(&self, session: &str, event: &Value) -> (u16, Value) {
        let path = format!("/v1/sessions/{session}/events");
        self.ask("POST", &path, &json!({ "events": [event] }))
    }

    fn say(&self, session: &str) {
        let content = json!([{ "type": "text", "text": "go" }]);
        let (status, body) =
            self.send(session, &json!({ "type": "user.message", "content": content }));
        assert_eq!(status, 200, "{body}");
    }

    fn events(&self, session: &str) -> Vec<Value> {
        let listed = self.get(&format!("/v1/sessions/{session}/events"));
        listed["data"].as_array().unwrap().clone()
    }

    /// Waits until the session is idle for a reason, and returns all of its events.
    fn until_idle(&self, session: &str, reason: &str) -> Vec<Value> {
        let started = Instant::now();
        loop {
            let events = self.events(session);
            if events.last().is_some_and(|last| last["stop_reason"]["type"] == reason) {
                return events;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "{events:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Declines the tour's questions until it asks for an approval; returns all events.
    fn until_asked(&self, session: &str) -> Vec<Value> {
        loop {
            let events = self.until_idle(session, "requires_action");
            let waits = &events.last().unwrap()["stop_reason"]["event_ids"][0];
            let waiting = events.iter().find(|event| event["id"] == *waits).unwrap();
            if waiting["type"] == "agent.tool_use" {
                return events;
            }
            let content = json!([{ "type": "text", "text": "not now" }]);
            let declined = json!({
                "type": "user.custom_tool_result", "custom_tool_use_id": waits,
                "content": content, "is_error": true,
            });
            // A call for a browser that nobody has open ends by itself meanwhile.
            let (status, body) = self.send(session, &declined);
            assert!(status == 200 || status == 400, "{body}");
        }
    }

    /// Reads a stream until as many events have come, and returns their ids in the log.
    fn streamed(&self, session: &str, after: Option<&str>, n: usize) -> Vec<String> {
        let after = after.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        let headers = format!("x-api-key: {}\r\n{after}", self.key);
        let path = format!("/haft/v1/sessions/{session}/stream");
        let lines = BufReader::new(self.connect("GET", &path, &headers, "")).lines();
        let ids = lines.map_while(Result::ok);
        let ids = ids.filter_map(|line| line.strip_prefix("id: ").map(str::to_owned));
        ids.take(n).collect()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

// D9: a call that waits for a person outlives the process, and runs once it is allowed.
#[test]
fn a_session_that_waits_for_approval_goes_on_in_the_next_process() {
    let data = tempfile::tempdir().unwrap();
    let server = Serving::start(data.path(), None);
    let session = server.session();
    server.say(&session);
    let asked = server.until_asked(&session);
    let call = asked.iter().rfind(|event| event["type"] == "agent.tool_use").unwrap();
    assert_eq!(call["evaluated_permission"], "ask");
    let key = server.key.clone();
    drop(server);
    let server = Serving::start(data.path(), Some(&key));
    assert_eq!(server.events(&session), asked, "the same events with the same ids");
    let use_id = asked.last().unwrap()["stop_reason"]["event_ids"][0].clone();
    let allowed =
        json!({ "type": "user.tool_confirmation", "tool_use_id": use_id, "result": "allow" });
    assert_eq!(server.send(&session, &allowed).0, 200);
    let (status, late) = server.send(&session, &allowed);
    assert_eq!((status, &late["error"]["type"]), (400, &json!("invalid_request_error")));
    let events = server.until_idle(&session, "end_turn");
    let text = Value::from(events).to_string();
    assert!(text.contains("nothing is lost and nothing is repeated"), "{text}");
    assert_eq!(server.get(&format!("/v1/sessions/{session}"))["status"], "idle");
}

#[test]
fn a_stream_that_is_resumed_has_no_gap_and_no_repetition() {
    let data = tempfile::tempdir().unwrap();
    let server = Serving::start(data.path(), None);
    let session = server.session();
    server.say(&session);
    let n = server.until_idle(&session, "requires_action").len();
    let whole = server.streamed(&session, None, n);
    let first = server.streamed(&session, None, 2);
    let rest = server.streamed(&session, first.last().map(String::as_str), n - 2);
    assert_eq!([first, rest].concat(), whole);
}

#[test]
fn nobody_gets_in_without_a_key_or_from_another_site() {
    let data = tempfile::tempdir().unwrap();
    let server = Serving::start(data.path(), None);
    let key = format!("x-api-key: {}\r\n", server.key);
    let refused = |headers: &str, status: u16, kind: &str| {
        let (found, body) = server.raw("GET", "/v1/agents", headers, "");
        assert_eq!((found, &body["error"]["type"]), (status, &json!(kind)), "{headers}");
        assert_eq!(body["type"], "error");
        assert!(body["request_id"].as_str().unwrap().starts_with("req_"));
    };
    refused("", 401, "authentication_error");
    refused("x-api-key: nonsense\r\n", 401, "authentication_error");
    refused(&format!("{key}origin: http://evil.example\r\n"), 403, "permission_error");
    let bearer = format!("authorization: Bearer {}\r\n", server.key);
    assert_eq!(server.raw("GET", "/v1/agents", &bearer, "").0, 200);
    assert_eq!(server.raw("GET", "/healthz", "", "").0, 200);
    assert_eq!(server.raw("GET", "/readyz", "", "").0, 200);
    let (status, body) = server.ask("GET", "/v1/nothing", &Value::Null);
    assert_eq!((status, &body["error"]["type"]), (404, &json!("not_found_error")));
    let kept = walk(data.path());
    let held = |file: &Vec<u8>| file.windows(server.key.len()).any(|w| w == server.key.as_bytes());
    assert!(!kept.iter().any(held), "the key is kept as its hash only");
}

fn walk(directory: &Path) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => walk(&path),
            false => vec![std::fs::read(path).unwrap()],
        })
        .collect()
}
