//! Requests that are sent again are done once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haft_runtime::{Adviser, ModelRequest, ToolContext, ToolFuture};
use haft_server::Scope;
use serde_json::{Value, json};

use crate::house::{House, Visitor, asking_agent};
use crate::threads::PATIENCE;

fn message(text: &str) -> Value {
    json!({"type": "user.message", "content": [{"type": "text", "text": text}]})
}

fn events(text: &str) -> Value {
    json!({"events": [message(text)]})
}

/// A session in which messages wait, because nobody answers what its model asked for.
async fn session(who: &Visitor) -> String {
    who.session().await
}

/// How often a text is in a session's log as a message.
async fn heard(who: &Visitor, session: &str, text: &str) -> usize {
    let log = who.get(&format!("/haft/v1/sessions/{session}/events?limit=1000")).await;
    let said = log["data"].as_array().unwrap().iter().filter(|entry| {
        entry["event"]["type"] == "message.received" && entry["event"].to_string().contains(text)
    });
    said.count()
}

fn is_replayed(head: &str) -> bool {
    head.contains("idempotent-replayed: true")
}

#[tokio::test]
async fn the_same_key_and_body_again_give_the_first_answer_again() {
    let house = House::start().await;
    let ann = house.admin().await;
    let session = session(&ann).await;
    let key = "idempotency-key: k-1\r\n";
    let path = format!("/v1/sessions/{session}/events");
    let (status, head, first) = ann.with(key, "POST", &path, &events("hello once")).await;
    assert_eq!((status, is_replayed(&head)), (200, false), "{head} {first}");
    for _ in 0..2 {
        let (status, head, again) = ann.with(key, "POST", &path, &events("hello once")).await;
        assert_eq!((status, is_replayed(&head)), (200, true), "{head} {again}");
        assert_eq!(again, first);
    }
    assert_eq!(heard(&ann, &session, "hello once").await, 1);
    // Without a key it is meant twice.
    ann.post(&path, &events("hello once")).await;
    assert_eq!(heard(&ann, &session, "hello once").await, 2);
}

#[tokio::test]
async fn a_key_for_another_request_is_refused_and_changes_nothing() {
    let house = House::start().await;
    let ann = house.admin().await;
    let bob = house.visitor("default", "bob", &[Scope::Admin]).await;
    let session = session(&ann).await;
    let (key, path) = ("idempotency-key: k-2\r\n", format!("/v1/sessions/{session}/events"));
    assert_eq!(ann.with(key, "POST", &path, &events("one")).await.0, 200);
    let other = format!("/haft/v1/sessions/{session}/messages");
    for (path, body) in [(&path, events("another")), (&other, json!({"text": "another"}))] {
        let (status, _, body) = ann.with(key, "POST", path, &body).await;
        assert_eq!(status, 422, "{body}");
        assert_eq!(body["error"]["details"]["code"], "idempotency_key_reused", "{body}");
    }
    assert_eq!(heard(&ann, &session, "another").await, 0);
    // Another caller's keys are their own.
    assert_eq!(bob.with(key, "POST", &path, &events("another")).await.0, 200);
    assert_eq!(heard(&ann, &session, "another").await, 1);
    let (status, _, body) = ann.with("idempotency-key:\r\n", "POST", &path, &events("x")).await;
    assert_eq!(status, 400, "{body}");
}

#[tokio::test]
async fn a_retry_of_an_sdk_is_the_same_request_and_the_same_words_on_purpose_are_not() {
    let house = House::start().await;
    let ann = house.admin().await;
    let bob = house.visitor("default", "bob", &[Scope::Admin]).await;
    let session = session(&ann).await;
    let path = format!("/v1/sessions/{session}/events");
    let (first, retry) = ("x-stainless-retry-count: 0\r\n", "x-stainless-retry-count: 1\r\n");
    let (_, _, told) = ann.with(first, "POST", &path, &events("again")).await;
    let (status, head, again) = ann.with(retry, "POST", &path, &events("again")).await;
    assert_eq!((status, is_replayed(&head)), (200, true), "{head} {again}");
    assert_eq!(again, told);
    assert_eq!(heard(&ann, &session, "again").await, 1);
    // On purpose.
    ann.with(first, "POST", &path, &events("again")).await;
    assert_eq!(heard(&ann, &session, "again").await, 2);
    // Someone else with the same words.
    bob.with(first, "POST", &path, &events("again")).await;
    assert_eq!(heard(&ann, &session, "again").await, 3);
    // A first try that never arrived.
    let (_, head, _) = ann.with(retry, "POST", &path, &events("anew")).await;
    assert!(!is_replayed(&head), "{head}");
    ann.with("x-stainless-retry-count: 2\r\n", "POST", &path, &events("anew")).await;
    assert_eq!(heard(&ann, &session, "anew").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_send_the_same_at_once_one_is_done() {
    let house = House::start().await;
    let ann = house.admin().await;
    let body = json!({"arguments": {"euro": 5}});
    let key = "idempotency-key: at-once\r\n";
    let call = || ann.with(key, "POST", "/haft/v1/tools/restore_note/call", &body);
    let (a, b, c, d) = tokio::join!(call(), call(), call(), call());
    let mut answers: Vec<Value> = Vec::new();
    for (status, head, answer) in [a, b, c, d] {
        assert_eq!(status, 200, "{head} {answer}");
        answers.push(answer);
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(house.notes(), 2, "one note was restored, once");
}

#[tokio::test]
async fn what_is_made_is_made_once_and_shown_alike() {
    let house = House::start().await;
    let ann = house.admin().await;
    let agent = json!({"name": "Once", "model": "scripted/asks"});
    let opening = json!({"agent": "agent_demo", "environment_id": "env_demo",
        "initial_events": [message("one"), message("two")]});
    let made = [
        ("/v1/agents", agent),
        ("/v1/environments", json!({"name": "once"})),
        ("/v1/vaults", json!({"display_name": "once"})),
        ("/v1/sessions", opening),
        ("/haft/v1/sessions", json!({"agent": "agent_demo"})),
        ("/haft/v1/tools/refund/call", json!({"arguments": {"euro": 5}})),
    ];
    for (n, (path, body)) in made.into_iter().enumerate() {
        let key = format!("idempotency-key: made-{n}\r\n");
        let (status, _, first) = ann.with(&key, "POST", path, &body).await;
        assert_eq!(status, 200, "{path}: {first}");
        let (status, head, again) = ann.with(&key, "POST", path, &body).await;
        assert_eq!((status, is_replayed(&head)), (200, true), "{path}: {again}");
        assert_eq!(again, first, "{path}");
    }
    let agents = ann.get("/v1/agents").await.to_string();
    assert_eq!(agents.matches("\"Once\"").count(), 1, "{agents}");
    let pending = ann.get("/haft/v1/pending").await;
    let waits = pending["data"].as_array().unwrap().iter();
    assert_eq!(waits.filter(|wait| wait["tool"] == "refund").count(), 1, "{pending}");
}

#[tokio::test]
async fn a_secret_that_is_shown_once_is_not_shown_again_and_nothing_is_made_twice() {
    let house = House::start().await;
    let ann = house.admin().await;
    let key = "idempotency-key: secret\r\n";
    let wanted = json!({"actor": "carl", "scopes": ["read"]});
    let (status, _, made) = ann.with(key, "POST", "/haft/v1/keys", &wanted).await;
    assert_eq!(status, 200, "{made}");
    let secret = made["key"].as_str().unwrap();
    let (status, _, body) = ann.with(key, "POST", "/haft/v1/keys", &wanted).await;
    assert_eq!(status, 409, "{body}");
    assert_eq!(body["error"]["details"]["code"], "shown_once", "{body}");
    assert!(!house.holds(secret), "the secret is in the clear");
    let keys = ann.get("/haft/v1/keys").await.to_string();
    assert_eq!(keys.matches("\"carl\"").count(), 1, "{keys}");
}

/// What a front end posts that says something in a thread: where and what.
pub(crate) fn posted(agent: &str, thread: &str, text: &str) -> [(String, Value); 2] {
    let said = json!({"id": text, "role": "user", "content": text});
    let run = json!({
        "threadId": thread, "runId": "r", "messages": [said], "tools": [], "context": [],
        "state": null,
    });
    let part = json!({"type": "text", "text": text});
    let said = json!({"id": text, "role": "user", "parts": [part]});
    let chat = json!({"id": format!("chat {thread}"), "messages": [said]});
    [(format!("/ag-ui/{agent}"), run), (format!("/chat/{agent}"), chat)]
}

/// The session that was opened last.
pub(crate) async fn newest(who: &Visitor) -> String {
    let listed = who.get("/v1/sessions?limit=1").await;
    listed["data"][0]["id"].as_str().unwrap().to_owned()
}

// The front ends' addresses take a key too, and tell the run again from where it began.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_front_end_posts_again_under_a_key_is_said_once_and_told_again() {
    let house = House::start().await;
    let ann = house.admin().await;
    let agent = ann.post("/v1/agents", &asking_agent()).await["id"].as_str().unwrap().to_owned();
    for (n, (path, body)) in posted(&agent, "t", "once, please").into_iter().enumerate() {
        let key = format!("idempotency-key: front-{n}\r\n");
        let (status, head, first) = ann.text_with(&key, "POST", &path, &body).await;
        assert_eq!((status, is_replayed(&head)), (200, false), "{path}: {head}");
        let session = newest(&ann).await;
        let (status, head, again) = ann.text_with(&key, "POST", &path, &body).await;
        assert_eq!((status, is_replayed(&head)), (200, true), "{path}: {head}");
        assert_eq!(newest(&ann).await, session, "{path}: no second session");
        assert_eq!(heard(&ann, &session, "once, please").await, 1, "{path}");
        for told in [&first, &again] {
            assert!(told.contains("Let me look."), "{path}: {told}");
        }
        let (status, _, refused) =
            ann.with(&key, "POST", &path, &posted(&agent, "t", "something else")[n].1).await;
        assert_eq!(status, 422, "{path}: {refused}");
        assert_eq!(refused["error"]["details"]["code"], "idempotency_key_reused", "{refused}");
        assert_eq!(heard(&ann, &session, "something else").await, 0, "{path}");
    }
    let pending = ann.get("/haft/v1/pending").await;
    assert_eq!(pending["data"].as_array().unwrap().len(), 2, "one call each: {pending}");
}

// E16: whole or not at all.
#[tokio::test]
async fn a_batch_of_events_is_applied_whole_or_not_at_all_and_says_which_one_is_wrong() {
    let house = House::start().await;
    let ann = house.admin().await;
    let session = session(&ann).await;
    let path = format!("/v1/sessions/{session}/events");
    let nothing = "call_00000000000000000000000000";
    let wrong =
        json!({"type": "user.tool_confirmation", "tool_use_id": nothing, "result": "allow"});
    let batch = json!({"events": [message("part of it"), wrong]});
    let why = ann.refused("POST", &path, &batch, 400).await;
    assert!(why.starts_with("events[1]: "), "{why}");
    let unreadable = json!({"events": [message("part of it"), {"type": "user.sings"}]});
    let why = ann.refused("POST", &path, &unreadable, 400).await;
    assert!(why.starts_with("events[1]: "), "{why}");
    assert_eq!(heard(&ann, &session, "part of it").await, 0);
    let batch = json!({"events": [message("first"), {"type": "user.interrupt"}, message("last")]});
    let told = ann.post(&path, &batch).await;
    assert_eq!(told["data"].as_array().unwrap().len(), 3, "{told}");
    let log = ann.get(&format!("/haft/v1/sessions/{session}/events?limit=1000")).await;
    let at = |text: &str| {
        let entries = log["data"].as_array().unwrap().iter();
        let mut found = entries.filter(|entry| entry["event"].to_string().contains(text));
        found.next().unwrap()["at"].clone()
    };
    assert_eq!(at("\"first\""), at("\"last\""), "both are of one append: {log}");
}

// The answer of a deletion may be lost when everything is done.
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_whose_answer_was_lost_answers_as_the_first_time() {
    let house = House::start().await;
    let ann = house.admin().await;
    let agent = ann.post("/v1/agents", &asking_agent()).await;
    let wanted = json!({"agent": agent["id"], "environment_id": "env_demo"});
    let session = ann.post("/v1/sessions", &wanted).await["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/sessions/{session}");
    let key = "idempotency-key: delete-once\r\n";
    let (status, _, first) = ann.with(key, "DELETE", &path, &Value::Null).await;
    assert_eq!(status, 200, "{first}");
    // The answer is kept shortly afterwards; then it is as if it never was.
    let database = rusqlite::Connection::open(house.data.path().join("haft.db")).unwrap();
    let sql = "DELETE FROM requests WHERE step = '' AND instr(note, 'session_deleted') > 0";
    let forget = async {
        while database.execute(sql, []).unwrap() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, forget).await.expect("the answer is kept");
    let (status, _, again) = ann.with(key, "DELETE", &path, &Value::Null).await;
    assert_eq!((status, again), (200, first));
    let other = "idempotency-key: delete-again\r\n";
    let (status, ..) = ann.with(other, "DELETE", &path, &Value::Null).await;
    assert_eq!(status, 404, "another request finds nothing");
}

/// Keeps a model from answering in its first turn.
struct Holds {
    was_let_go: Arc<AtomicBool>,
}

/// Tells when whoever holds it is dropped.
struct LetGo(Arc<AtomicBool>);

impl Drop for LetGo {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Adviser for Holds {
    fn notes<'a>(
        &'a self,
        request: &'a ModelRequest,
        context: &'a ToolContext,
    ) -> ToolFuture<'a, Vec<String>> {
        let is_first = request.turn == 1;
        Box::pin(async move {
            if is_first {
                let _held = LetGo(Arc::clone(&self.was_let_go));
                context.stop().cancelled().await;
            }
            Vec::new()
        })
    }
}

/// Waits until the session's log tells of a text.
async fn told(who: &Visitor, session: &str, text: &str) {
    let path = format!("/haft/v1/sessions/{session}/events?limit=1000");
    let looks = async {
        while !who.get(&path).await.to_string().contains(text) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let told = tokio::time::timeout(PATIENCE, looks).await;
    told.unwrap_or_else(|_| panic!("nothing tells of {text:?}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_still_answering_is_interrupted_and_told_something_else_in_one_request() {
    let was_let_go = Arc::new(AtomicBool::new(false));
    let holds = Holds { was_let_go: Arc::clone(&was_let_go) };
    let house = House::with(|builder| builder.adviser(holds), &[]).await;
    let ann = house.admin().await;
    let agent = ann.post("/v1/agents", &asking_agent()).await;
    let wanted = json!({"agent": agent["id"], "environment_id": "env_demo"});
    let session = ann.post("/v1/sessions", &wanted).await["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/sessions/{session}/events");
    ann.post(&path, &events("think about it")).await;
    told(&ann, &session, "turn.started").await;
    let batch = json!({"events": [{"type": "user.interrupt"}, message("never mind")]});
    let taken = ann.post(&path, &batch).await;
    assert_eq!(taken["data"].as_array().unwrap().len(), 2, "{taken}");
    told(&ann, &session, "Let me look.").await;
    let stopped = async {
        while !was_let_go.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, stopped).await.expect("the first answer is waited for");
}
