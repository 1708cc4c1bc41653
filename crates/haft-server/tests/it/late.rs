//! Decisions that arrive after the call has moved on: whoever is late is told who decided.

use haft_core::session::Returned;
use haft_core::tool::{Definition, Executor, Gate, Schema};
use haft_core::{Actor, CallResult, Output};
use haft_runtime::{FunctionTool, Tool};
use haft_server::Scope;
use serde_json::{Value, json};

use crate::house::{House, Visitor};

/// A tool that a client runs once somebody has approved the call.
fn gated_client_tool() -> impl Tool {
    let schema =
        Schema::from_value(&json!({"type": "object", "properties": {"euro": {}}})).unwrap();
    let name = "get_location".parse().unwrap();
    let mut definition = Definition::new(name, "Returns where the user is.", schema);
    definition.executor = Executor::Client;
    definition.gate = Gate::Ask;
    FunctionTool::new(definition, |_, _| async {
        Ok(Returned::from(CallResult::Ok(Output::of_value(json!("the server ran it")))))
    })
}

/// Sends a decision that must be refused as late, and returns who was first.
async fn refused_as_stale(who: &Visitor, path: &str, said: &Value) -> Value {
    let (status, body) = who.ask("POST", path, said).await;
    assert_eq!(status, 409, "{said}: {body}");
    let details = &body["error"]["details"];
    assert_eq!(details["code"], "stale", "{said}: {body}");
    assert!(details["decided"]["at"].is_i64(), "{said}: {body}");
    details["decided"].clone()
}

// S4-20, S4-9: the second of two who approve a gated client call is late, also when the call waits
// for its client by then.
#[tokio::test]
async fn s4_20_a_second_decision_about_a_gated_client_call_is_stale() {
    let house = House::with(|builder| builder.tool(gated_client_tool()), &[]).await;
    let ann = house.admin().await;
    let bob = house.visitor("default", "bob", &[Scope::Admin]).await;
    let (session, call) = ann.call("get_location").await;
    let path = format!("/haft/v1/sessions/{session}/calls/{call}/resolve");
    let early = json!({"type": "result", "outcome": {"ok": true, "result": "here"}});
    let (status, body) = ann.ask("POST", &path, &early).await;
    let code = &body["error"]["details"]["code"];
    assert_eq!((status, code), (400, &json!("wrong_kind")), "nobody has decided yet: {body}");
    ann.post(&path, &json!({"type": "approve"})).await;
    for late in [json!({"type": "approve"}), json!({"type": "deny", "note": "no"})] {
        let first = refused_as_stale(&bob, &path, &late).await;
        assert_eq!((&first["decision"], &first["by"]["id"]), (&json!("approve"), &json!("ann")));
    }
    let answer = json!({"type": "answer", "value": 1});
    let (status, body) = bob.ask("POST", &path, &answer).await;
    let code = &body["error"]["details"]["code"];
    assert_eq!((status, code), (400, &json!("wrong_kind")), "no question was ever asked: {body}");
    ann.post(&path, &early).await;
    for late in [json!({"type": "approve"}), early] {
        let first = refused_as_stale(&bob, &path, &late).await;
        assert_eq!((&first["decision"], &first["by"]["id"]), (&json!("result"), &json!("ann")));
    }
}

#[tokio::test]
async fn a_decision_about_a_call_whose_session_has_ended_is_stale() {
    let house = House::start().await;
    let ann = house.admin().await;
    let (session, call) = ann.call("refund").await;
    let path = format!("/haft/v1/sessions/{session}/calls/{call}/resolve");
    ann.post(&path, &json!({"type": "deny"})).await;
    house.haft.end(session.parse().unwrap(), Actor::system(), None).await.unwrap();
    let first = refused_as_stale(&ann, &path, &json!({"type": "approve"})).await;
    assert_eq!(first["decision"], "deny");
}
