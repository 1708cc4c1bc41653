//! A client by hand: requests of the current revision as they are on the wire.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::gated::PATIENCE;

/// Makes requests to one server.
pub(crate) struct Client {
    url: String,
    capabilities: Value,
    /// Whether requests say something that has no meaning.
    remarks: bool,
}

/// How a request is answered.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: String,
    pub(crate) body: Value,
}

impl Client {
    pub(crate) fn new(url: &str, capabilities: Value) -> Self {
        Self { url: url.to_owned(), capabilities, remarks: false }
    }

    /// A client whose calls say more than what is called.
    pub(crate) fn remarking(url: &str, capabilities: Value) -> Self {
        Self { remarks: true, ..Self::new(url, capabilities) }
    }

    /// A client that knows tasks and can ask its user.
    pub(crate) fn with_tasks(url: &str) -> Self {
        let extensions = json!({"io.modelcontextprotocol/tasks": {}});
        Self::new(url, json!({"extensions": extensions, "elicitation": {"form": {}}}))
    }

    /// Makes a request and returns its result.
    pub(crate) fn request(&self, method: &str, params: Value) -> Value {
        let answer = self.exchange(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    pub(crate) fn exchange(&self, method: &str, params: Value) -> Value {
        self.answered(method, params).body
    }

    pub(crate) fn answered(&self, method: &str, params: Value) -> Answer {
        let mut stream = self.send(method, params);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        // A JSON answer is one line; in a stream of events the answer is the last one's.
        let data = answer.lines().rev().find_map(|line| {
            let line = line.trim().strip_prefix("data:").unwrap_or(line).trim();
            serde_json::from_str::<Value>(line).ok().filter(|value| value.get("id").is_some())
        });
        let body = data.unwrap_or_else(|| panic!("{method} was answered with {answer}"));
        Answer { status: answer.lines().next().unwrap_or_default().to_owned(), body }
    }

    /// Makes a request and does not wait for its answer.
    pub(crate) fn send(&self, method: &str, mut params: Value) -> TcpStream {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "by-hand", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
        });
        if self.remarks {
            params["_meta"]["example.com/remark"] = "by the way".into();
        }
        let name = ["name", "uri", "taskId"].iter().find_map(|field| params[*field].as_str());
        let name = name.map(|name| format!("mcp-name: {name}\r\n")).unwrap_or_default();
        let body =
            json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let host = self.url.strip_prefix("http://").and_then(|rest| rest.split('/').next());
        let host = host.unwrap();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\
             content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
             mcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\n{name}\
             content-length: {}\r\n\r\n",
            body.len()
        );
        let address = host.replace("localhost", "127.0.0.1");
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        stream
    }

    /// Polls a task until it is in one of the states.
    pub(crate) fn task_in(&self, id: &str, states: &[&str]) -> Value {
        let mut task = Value::Null;
        let began = std::time::Instant::now();
        while began.elapsed() < PATIENCE {
            task = self.request("tasks/get", json!({"taskId": id}));
            if task["status"].as_str().is_some_and(|status| states.contains(&status)) {
                return task;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("the task {id} was never in {states:?}: {task}")
    }
}
