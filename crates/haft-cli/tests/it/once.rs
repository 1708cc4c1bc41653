//! A server that is killed around the answer to a request, and the request sent again.

use std::io::Read as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::{self, Cluster};
use crate::commands::{Ended, haft};
use crate::mcp::until;
use crate::serving::Serving;

/// When the server is killed: when its answer begins, or so long after the request was sent.
#[derive(Debug, Clone, Copy)]
enum Killed {
    AtTheAnswer,
    After(Duration),
}

const MOMENTS: [Killed; 5] = [
    Killed::AtTheAnswer,
    Killed::After(Duration::from_millis(2)),
    Killed::After(Duration::from_millis(8)),
    Killed::After(Duration::from_millis(20)),
    Killed::AtTheAnswer,
];

/// Sends a request, kills the server, starts another one and sends the request again; returns the
/// answer to that.
fn through_a_kill(
    server: Serving,
    start: &dyn Fn(&str) -> Serving,
    (headers, again): (&str, &str),
    (path, body): (&str, &Value),
    killed: Killed,
) -> (Serving, Value) {
    let key = server.key.clone();
    let with = |more: &str| format!("x-api-key: {key}\r\n{more}\r\n");
    let mut connection = server.connect("POST", path, &with(headers), &body.to_string());
    match killed {
        Killed::AtTheAnswer => connection.read_exact(&mut [0; 1]).unwrap(),
        // However far it comes within this time, the request is done once in the end.
        Killed::After(time) => thread::sleep(time),
    }
    drop(server);
    let server = start(&key);
    let (status, answer) = server.raw("POST", path, &with(again), &body.to_string());
    assert_eq!(status, 200, "{killed:?}: {answer}");
    (server, answer)
}

fn messages(server: &Serving, session: &str, text: &str) -> usize {
    let log = server.get(&format!("/haft/v1/sessions/{session}/events?limit=1000"));
    let entries = log["data"].as_array().unwrap().iter();
    let said = entries.filter(|entry| entry["event"]["type"] == "message.received");
    said.filter(|entry| entry["event"].to_string().contains(text)).count()
}

fn done_once(start: &dyn Fn(Option<&str>) -> Serving) {
    let mut server = start(None);
    let restart = |key: &str| start(Some(key));
    let session = server.session();
    let path = format!("/v1/sessions/{session}/events");
    let kinds = [
        ("idempotency-key: KEY", "idempotency-key: KEY"),
        ("x-stainless-retry-count: 0", "x-stainless-retry-count: 1"),
    ];
    for (n, killed) in MOMENTS.into_iter().enumerate() {
        let (first, again) = kinds[n % 2];
        let text = format!("word-{n}-end");
        let (first, again) = (first.replace("KEY", &text), again.replace("KEY", &text));
        let content = json!([{ "type": "text", "text": text }]);
        let body = json!({ "events": [{ "type": "user.message", "content": content }] });
        let (next, answer) =
            through_a_kill(server, &restart, (&first, &again), (&path, &body), killed);
        assert_eq!(messages(&next, &session, &text), 1, "{killed:?}: {answer}");
        let listed = next.events(&session);
        let id = &answer["data"][0]["id"];
        assert!(listed.iter().any(|event| event["id"] == *id), "{killed:?}: {answer}");
        server = next;
    }
    let wanted = json!({ "arguments": { "command": "echo once" } });
    let path = "/haft/v1/tools/shell_run/call";
    let headers = "idempotency-key: a-call";
    let (server, answer) =
        through_a_kill(server, &restart, (headers, headers), (path, &wanted), Killed::AtTheAnswer);
    let pending = server.get("/haft/v1/pending");
    let calls = pending["data"].as_array().unwrap().iter();
    let calls: Vec<_> = calls.filter(|wait| wait["tool"] == "shell_run").collect();
    assert_eq!(calls.len(), 1, "one call waits for its approval: {pending}");
    assert_eq!(calls[0]["call"], answer["call"], "{pending}");
}

// E1: by the command, over a server, through a kill of it, and without one.
#[test]
fn a_command_with_an_idempotency_key_calls_its_tool_once() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let call = |command: &str| {
        let arguments = json!({ "command": command }).to_string();
        let key = ["--idempotency-key", "order-17", "--json"];
        let call = ["tools", "call", "shell_run", "--args", &arguments];
        haft(data, &[&call[..], &key].concat())
    };
    let waits = |ended: &Ended| {
        assert_eq!(ended.code, 3, "{ended:?}");
        ended.json()["call"].as_str().unwrap().to_owned()
    };
    let server = Serving::start(data, None);
    let key = server.key.clone();
    let first = waits(&call("echo ran >> mark"));
    assert_eq!(waits(&call("echo ran >> mark")), first);
    drop(server);
    assert_eq!(waits(&call("echo ran >> mark")), first, "without a server");
    let server = Serving::start(data, Some(&key));
    assert_eq!(waits(&call("echo ran >> mark")), first);
    let reused = call("echo other >> mark");
    assert!(reused.stderr.contains("used for another request"), "{reused:?}");
    assert_eq!(server.get("/haft/v1/pending")["data"].as_array().unwrap().len(), 1);
    let approved = haft(data, &["approve", &first]);
    assert_eq!(approved.code, 0, "{approved:?}");
    until(|| (marks(data) == 1).then_some(()));
    assert_eq!(waits(&call("echo ran >> mark")), first, "the first answer is given again");
    assert_eq!(marks(data), 1);
}

/// How often the command ran, over all workspaces.
fn marks(data: &Path) -> usize {
    let workspaces = std::fs::read_dir(data.join("workspaces")).unwrap();
    let marks = workspaces.map(|workspace| {
        let mark = workspace.unwrap().path().join("mark");
        std::fs::read_to_string(mark).unwrap_or_default().lines().count()
    });
    marks.sum()
}

#[test]
fn what_is_sent_again_after_a_kill_is_done_once_on_sqlite() {
    let data = tempfile::tempdir().unwrap();
    done_once(&|key| Serving::start(data.path(), key));
}

#[test]
fn what_is_sent_again_after_a_kill_is_done_once_on_postgresql() {
    if cluster::is_left_out() {
        return;
    }
    let cluster = Cluster::private();
    let (data, url) = (tempfile::tempdir().unwrap(), cluster.url());
    let start = |data: &Path, key: Option<&str>| {
        Serving::start_with(data, key, &["--database-url", url.as_str()])
    };
    done_once(&|key| start(data.path(), key));
}
