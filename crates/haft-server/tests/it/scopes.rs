//! Who gets in: every path of `/haft/v1` by the scope that it needs, the tenant, and its input.

use haft_server::Scope;
use serde_json::{Value, json};

use crate::house::House;

const ALL: [Scope; 3] = [Scope::Read, Scope::Write, Scope::Approve];

/// Every path but those of streams, with the least scope that opens it. `:session` and `:call`
/// stand for those that a test made.
const PATHS: [(&str, &str, Scope); 26] = [
    ("GET", "/agents", Scope::Read),
    ("GET", "/pending", Scope::Read),
    ("GET", "/sessions", Scope::Read),
    ("POST", "/sessions", Scope::Write),
    ("GET", "/sessions/:session", Scope::Read),
    ("GET", "/sessions/:session/events", Scope::Read),
    ("POST", "/sessions/:session/messages", Scope::Write),
    ("POST", "/sessions/:session/interrupt", Scope::Write),
    ("GET", "/sessions/:session/grants", Scope::Read),
    ("POST", "/sessions/:session/grants", Scope::Approve),
    ("POST", "/sessions/:session/grants/preview", Scope::Read),
    ("GET", "/sessions/:session/calls/:call", Scope::Read),
    ("POST", "/sessions/:session/calls/:call/resolve", Scope::Approve),
    ("GET", "/sessions/:session/calls/:call/undo", Scope::Read),
    ("POST", "/sessions/:session/calls/:call/undo", Scope::Approve),
    ("GET", "/tools", Scope::Read),
    ("POST", "/tools/refund/call", Scope::Write),
    ("POST", "/tools/refund/preview", Scope::Write),
    ("GET", "/rules", Scope::Read),
    ("GET", "/wakes", Scope::Read),
    ("POST", "/wakes/:session", Scope::Write),
    ("DELETE", "/wakes/:session/wake_x", Scope::Write),
    ("GET", "/audit?session=:session", Scope::Read),
    ("GET", "/versions/agents/agent_demo", Scope::Read),
    ("GET", "/artifacts/art_x", Scope::Read),
    ("GET", "/me", Scope::Read),
];

fn filled(path: &str, session: &str, call: &str) -> String {
    format!("/haft/v1{}", path.replace(":session", session).replace(":call", call))
}

/// A body that is right for the path, so that only the key is in question.
fn body(method: &str, path: &str) -> Value {
    match path.rsplit('/').next().unwrap() {
        _ if method != "POST" => Value::Null,
        "sessions" => json!({"agent": "agent_demo"}),
        "messages" => json!({"text": "hello"}),
        "preview" if path.starts_with("/tools/") => json!({"arguments": {"euro": 1}}),
        "grants" | "preview" => json!({"tool": "refund"}),
        "resolve" => json!({"type": "deny"}),
        "call" => json!({"arguments": {"euro": 1}}),
        ":session" => json!({"after_ms": 3_600_000, "reason": "x"}),
        _ => json!({}),
    }
}

#[tokio::test]
async fn every_path_is_opened_by_its_scope_and_by_no_other() {
    let house = House::start().await;
    let (session, call) = house.admin().await.call("refund").await;
    for (method, path, scope) in PATHS.into_iter().filter(|(_, path, _)| *path != "/me") {
        let asked = filled(path, &session, &call);
        let body = body(method, path);
        let (status, _) = house.stranger().ask(method, &asked, &body).await;
        assert_eq!(status, 401, "{method} {path} without a key");
        let others: Vec<Scope> = ALL.into_iter().filter(|other| *other != scope).collect();
        let lacking = house.visitor("default", "bob", &others).await;
        let why = lacking.refused(method, &asked, &body, 403).await;
        assert!(why.contains(&format!("{scope:?}").to_lowercase()), "{why}");
        let holding = house.visitor("default", "ann", &[scope]).await;
        let (status, found) = holding.ask(method, &asked, &body).await;
        assert!(!matches!(status, 401 | 403 | 500), "{method} {path}: {status} {found}");
    }
}

#[tokio::test]
async fn what_is_of_another_tenant_is_not_there() {
    let house = House::start().await;
    let (session, call) = house.admin().await.call("refund").await;
    let eve = house.visitor("other", "eve", &[Scope::Admin]).await;
    for (method, path, _) in PATHS.into_iter().filter(|(_, path, _)| path.contains(":session")) {
        let asked = filled(path, &session, &call);
        eve.refused(method, &asked, &body(method, path), 404).await;
    }
    for list in ["pending", "sessions", "wakes", "agents"] {
        assert_eq!(eve.get(&format!("/haft/v1/{list}")).await["data"], json!([]), "{list}");
    }
    let still = house.admin().await.get("/haft/v1/pending").await;
    assert_eq!(still["data"].as_array().unwrap().len(), 1, "nothing of it was ended by them");
}

#[tokio::test]
async fn a_filter_that_nobody_applies_and_a_body_that_nobody_can_read_are_refused() {
    let house = House::start().await;
    let ann = house.admin().await;
    let (session, call) = ann.call("refund").await;
    for (method, path, _) in PATHS {
        let asked = filled(path, &session, &call);
        let sign = if asked.contains('?') { '&' } else { '?' };
        let colored = format!("{asked}{sign}color=red");
        let why = ann.refused(method, &colored, &body(method, path), 400).await;
        assert!(why.contains("`color`"), "{method} {path}");
        if !body(method, path).is_null() && !path.ends_with("/undo") {
            for wrong in ["", "[]", "{\"a\":1,\"a\":2}", "{\"unheard_of\":1}"] {
                let (status, found) = ann.raw(method, &asked, wrong).await;
                assert_eq!(status, 400, "{method} {path} with {wrong:?}: {found}");
            }
        }
    }
}

#[tokio::test]
async fn a_wait_is_ended_once_and_whoever_is_second_is_told_who_was_first() {
    let house = House::start().await;
    let ann = house.admin().await;
    let bob = house.visitor("default", "bob", &[Scope::Read, Scope::Approve]).await;
    let (session, call) = ann.call("refund").await;
    let path = format!("/haft/v1/sessions/{session}/calls/{call}/resolve");
    let why = ann.refused("POST", &path, &json!({"type": "maybe"}), 400).await;
    assert!(why.contains("maybe") && why.contains("approve"), "{why}");
    let decided = ann.post(&path, &json!({"type": "approve"})).await;
    assert_eq!((&decided["decision"], &decided["by"]["id"]), (&json!("approve"), &json!("ann")));
    let (status, late) = bob.ask("POST", &path, &json!({"type": "deny"})).await;
    assert_eq!(status, 409);
    assert_eq!(late["error"]["details"]["decided"]["by"]["id"], "ann", "{late}");
    assert_eq!(ann.get("/haft/v1/pending").await["data"], json!([]));
}
