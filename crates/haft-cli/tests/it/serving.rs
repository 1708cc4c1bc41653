//! A running `haft serve`, spoken to over real HTTP.

#![expect(clippy::disallowed_methods, reason = "runs the binary")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Where the commands of tests keep what is trusted, in place of the developer's own directory.
pub(crate) fn config_home() -> PathBuf {
    // By user, so that the tests of two users of one build do not disturb each other.
    let user = rustix::process::geteuid().as_raw();
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("config-home-{user}"))
}

/// How long to wait for a state before a test fails. No test passes or fails by how long it takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// A running server, killed when it is dropped.
pub(crate) struct Serving {
    pub(crate) process: Child,
    pub(crate) address: String,
    pub(crate) key: String,
}

impl Serving {
    /// Starts a server over a directory; the key is the one shown at the first start.
    pub(crate) fn start(data: &Path, key: Option<&str>) -> Self {
        Self::start_with(data, key, &[])
    }

    /// The same with further arguments.
    pub(crate) fn start_with(data: &Path, key: Option<&str>, more: &[&str]) -> Self {
        Self::start_saying(data, key, more, Stdio::inherit())
    }

    /// The same with a log that goes elsewhere.
    pub(crate) fn start_saying(data: &Path, key: Option<&str>, more: &[&str], log: Stdio) -> Self {
        Self::answering(Self::spawn(data, more, log), key).expect("the server starts")
    }

    /// Starts a server and does not wait for it.
    pub(crate) fn spawn(data: &Path, more: &[&str], log: Stdio) -> Child {
        Self::command(data, more).stderr(log).spawn().unwrap()
    }

    /// Returns the command that starts a server, for tests that change more of it.
    pub(crate) fn command(data: &Path, more: &[&str]) -> Command {
        // The kernel kills the server when the thread that started it ends, so that no server
        // outlives a test that is killed before it can drop it.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", env!("CARGO_BIN_EXE_haft")])
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .args(more)
            .env("XDG_CONFIG_HOME", config_home())
            .env_remove("HAFT_API_KEY")
            .stdout(Stdio::piped());
        command
    }

    /// Waits until a server that was started says where it answers; nothing if it ends instead.
    pub(crate) fn answering(mut process: Child, key: Option<&str>) -> Option<Self> {
        let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
        let api = said.by_ref().map(Result::unwrap).find(|line| line.starts_with("api"));
        let Some(api) = api else {
            process.wait().unwrap();
            return None;
        };
        let address = api.split_once("://").unwrap().1.trim_end_matches("/v1").to_owned();
        let key = match key {
            Some(key) => key.to_owned(),
            None => {
                let mut lines = said.by_ref().map(Result::unwrap);
                let line = lines.find(|line| line.starts_with("key")).unwrap();
                line.split_whitespace().nth(1).unwrap().to_owned()
            }
        };
        Some(Self { process, address, key })
    }

    pub(crate) fn connect(&self, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        let (address, length) = (&self.address, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             content-length: {length}\r\n{headers}\r\n{body}"
        );
        connection.write_all(request.as_bytes()).unwrap();
        connection
    }

    /// Sends a request that may come to nothing: returns status, head and body of the answer, or
    /// nothing if there was no whole answer within a time.
    pub(crate) fn attempt(
        &self,
        (method, path): (&str, &str),
        headers: &str,
        body: &str,
        patience: Duration,
    ) -> Option<(u16, String, Value)> {
        let mut connection = TcpStream::connect(&self.address).ok()?;
        connection.set_read_timeout(Some(patience)).ok()?;
        let (address, length) = (&self.address, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             content-length: {length}\r\n{headers}\r\n{body}"
        );
        connection.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        // An answer that was cut off is none; probes answer in plain text.
        let body = match head.to_ascii_lowercase().contains("application/json") {
            true => serde_json::from_str(body).ok()?,
            false => Value::Null,
        };
        Some((status, head.to_owned(), body))
    }

    pub(crate) fn raw(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, Value) {
        let mut answer = String::new();
        self.connect(method, path, headers, body).read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.raw(method, path, &format!("x-api-key: {}\r\n", self.key), &body)
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path, &Value::Null);
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        let (status, body) = self.ask("POST", path, body);
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub(crate) fn session(&self) -> String {
        let wanted = json!({ "agent": "agent_demo", "environment_id": "env_demo" });
        self.post("/v1/sessions", &wanted)["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn send(&self, session: &str, event: &Value) -> (u16, Value) {
        let path = format!("/v1/sessions/{session}/events");
        self.ask("POST", &path, &json!({ "events": [event] }))
    }

    pub(crate) fn say(&self, session: &str) {
        let content = json!([{ "type": "text", "text": "go" }]);
        let (status, body) =
            self.send(session, &json!({ "type": "user.message", "content": content }));
        assert_eq!(status, 200, "{body}");
    }

    pub(crate) fn events(&self, session: &str) -> Vec<Value> {
        let listed = self.get(&format!("/v1/sessions/{session}/events"));
        listed["data"].as_array().unwrap().clone()
    }

    /// Waits until the session is idle for a reason, and returns all of its events.
    pub(crate) fn until_idle(&self, session: &str, reason: &str) -> Vec<Value> {
        let started = Instant::now();
        loop {
            let events = self.events(session);
            if events.last().is_some_and(|last| last["stop_reason"]["type"] == reason) {
                return events;
            }
            assert!(started.elapsed() < PATIENCE, "{events:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Declines the tour's questions until it asks for an approval; returns all events.
    pub(crate) fn until_asked(&self, session: &str) -> Vec<Value> {
        loop {
            let events = self.until_idle(session, "requires_action");
            let waits = &events.last().unwrap()["stop_reason"]["event_ids"][0];
            let waiting = events.iter().find(|event| event["id"] == *waits).unwrap();
            if waiting["type"] == "agent.tool_use" {
                return events;
            }
            // A call for a browser that nobody has open ends by itself meanwhile.
            let (status, body) = self.decline(session, waits);
            assert!(status == 200 || status == 400, "{body}");
        }
    }

    fn decline(&self, session: &str, question: &Value) -> (u16, Value) {
        let content = json!([{ "type": "text", "text": "not now" }]);
        let declined = json!({
            "type": "user.custom_tool_result", "custom_tool_use_id": question,
            "content": content, "is_error": true,
        });
        self.send(session, &declined)
    }

    /// Takes the tour as far as its call for a browser.
    pub(crate) fn call_browser(&self, session: &str) {
        self.say(session);
        let asked = self.until_idle(session, "requires_action");
        let (status, body) =
            self.decline(session, &asked.last().unwrap()["stop_reason"]["event_ids"][0]);
        assert_eq!(status, 200, "{body}");
        let called = |event: &Value| event["name"] == "get_browser_language";
        let started = Instant::now();
        while !self.events(session).iter().any(called) {
            assert!(started.elapsed() < PATIENCE, "no browser was called");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Is there as a client that runs a tool of a session, until it is dropped.
    pub(crate) fn attend(&self, session: &str, tool: &str) -> TcpStream {
        let headers = format!("x-api-key: {}\r\n", self.key);
        let path = format!("/haft/v1/sessions/{session}/events/stream?client_tools={tool}");
        let connection = self.connect("GET", &path, &headers, "");
        let mut answer = BufReader::new(&connection).lines().map(Result::unwrap);
        assert_eq!(answer.next().unwrap(), "HTTP/1.1 200 OK");
        connection
    }

    /// Reads a stream until as many events have come, and returns their ids in the log.
    pub(crate) fn streamed(&self, session: &str, after: Option<&str>, n: usize) -> Vec<String> {
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
