//! `haft serve` over real HTTP, with the scripted demo agent that a fresh install has.

use std::path::Path;

use serde_json::{Value, json};

use crate::cluster::{self, Cluster};
use crate::serving::Serving;
use crate::settling::until;

// D5: a call that waits for a person outlives the process, and runs once it is allowed.
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

// S4-29: a call that starts on one node finds the client that is connected to another, and fails
// once that client has left.
#[test]
fn s4_29_a_client_of_another_node_is_there_until_it_leaves() {
    if cluster::is_left_out() {
        return;
    }
    let cluster = Cluster::private();
    let data = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (url, [first, second]) = (cluster.url(), data.each_ref().map(|it| it.path()));
    let a = Serving::start_with(first, None, &["--database-url", &url]);
    let b = Serving::start_with(second, Some(&a.key), &["--database-url", &url]);
    let (attended, alone) = (a.session(), a.session());
    let client = b.attend(&attended, "get_browser_language");
    a.call_browser(&attended);
    a.call_browser(&alone);
    let gone = |session: &str| {
        let listed = a.get(&format!("/haft/v1/sessions/{session}/events"));
        listed.to_string().contains("client_gone")
    };
    let until_gone = |session: &str| {
        until("the client is gone", || gone(session));
    };
    until_gone(&alone);
    assert!(!gone(&attended), "it has waited for longer than the other, whose client never came");
    drop(client);
    until_gone(&attended);
}

#[test]
fn nodes_that_start_at_the_same_moment_on_an_empty_database_all_serve() {
    if cluster::is_left_out() {
        return;
    }
    let cluster = Cluster::private();
    let url = cluster.url();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let data = tempfile::tempdir().unwrap();
                let options = ["--database-url", &url];
                let node = Serving::start_with(data.path(), Some("unknown"), &options);
                assert_eq!(node.raw("GET", "/readyz", "", "").0, 200);
            });
        }
    });
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

pub(crate) fn walk(directory: &Path) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => walk(&path),
            false => vec![std::fs::read(path).unwrap()],
        })
        .collect()
}
