//! Finding one's way among the sessions of one's agent.

use crate::agency::Agency;
use haft_core::Millis;
use serde_json::{Value, json};

fn ids(found: &Value) -> Vec<String> {
    let sessions = found["sessions"].as_array().unwrap().iter();
    sessions.map(|one| one["sessionId"].as_str().unwrap().to_owned()).collect()
}

// S2-T7, S2-T8, S2-34, S2-35, S2-36, S2-42: lists, filters, relations.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t7_s2_t8_s2_34_s2_35_s2_36_s2_42_sessions_are_listed_by_kinship_and_posture() {
    let agency = Agency::new();
    let parent = agency.session("ada").await;
    let child = agency.child("ada", parent).await;
    let apart = agency.session("ada").await;
    agency.session("bob").await;
    agency.aim(child, "ship", &["out"]).await;
    let all = agency.call(parent, "session_list", json!({})).await.unwrap();
    assert_eq!((&all["agentId"], &all["count"]), (&json!("ada"), &json!(3)));
    let without = json!({ "includeCurrent": false });
    assert_eq!(agency.call(parent, "session_list", without).await.unwrap()["count"], 2);
    let below = agency.call(parent, "session_list_children", json!({})).await.unwrap();
    assert_eq!(ids(&below), [child.to_string()]);
    let summary = &below["sessions"][0];
    assert_eq!(summary["relationToCurrent"], "child");
    assert_eq!(
        (&summary["outcomeStatus"], &summary["promotionReady"]),
        (&json!("not_ready"), &json!(false))
    );
    assert_eq!(summary["childCount"], 0);
    assert!(summary.get("agentSetupFingerprint").is_some());
    let related = json!({ "lineage": "children", "includeCurrent": false });
    assert_eq!(
        ids(&agency.call(parent, "session_list", related).await.unwrap()),
        [child.to_string()]
    );
    let aimed = json!({ "hasOutcome": true });
    assert_eq!(ids(&agency.call(apart, "session_list", aimed).await.unwrap()), [child.to_string()]);
    let none = json!({ "outcomeStatus": "pass" });
    assert_eq!(agency.call(apart, "session_list", none).await.unwrap()["count"], 0);
    agency.place.store().advance(Millis::from_secs(3600));
    agency.call(apart, "memory_list", json!({})).await.unwrap();
    let recent = json!({ "activeMinutes": 5 });
    assert_eq!(
        ids(&agency.call(apart, "session_list", recent).await.unwrap()),
        [apart.to_string()]
    );
}

// S2-T9, S2-32: one session, with everything that tells whether to use its work.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t9_s2_32_a_snapshot_tells_where_a_session_stands() {
    let agency = Agency::new();
    let (one, other) = (agency.session("ada").await, agency.session("ada").await);
    agency.aim(one, "ship", &["out"]).await;
    let call = agency.propose(one, "shell_run", json!({ "command": "touch x" })).await;
    agency.node.haft().wait(one, call).await.unwrap();
    let snapshot =
        agency.call(other, "session_get_snapshot", json!({ "sessionId": one })).await.unwrap();
    assert_eq!(snapshot["status"], "requires_action");
    assert_eq!(snapshot["requiresAction"], true);
    assert_eq!(snapshot["pendingActionKind"], "tool_confirmation");
    assert_eq!(snapshot["pendingActionToolName"], "shell_run");
    assert_eq!(snapshot["outcomeStatus"], "blocked");
    assert_eq!(snapshot["activeOutcome"]["title"], "ship");
    let own = agency.call(other, "session_get_snapshot", json!({})).await.unwrap();
    assert_eq!(own["setupMatchesCurrent"], true);
    assert_eq!(own["status"], "running");
    for name in ["outcome.json", "shellState"] {
        assert!(own["artifactPaths"][name].is_string(), "{name}: {}", own["artifactPaths"]);
    }
}

// S2-T11, S2-T12, S2-T13, S2-37, S2-38: slices of the log in the document's words.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t11_s2_t12_s2_t13_s2_37_s2_38_events_and_traces_are_read_by_place() {
    let agency = Agency::new();
    let one = agency.session("ada").await;
    agency.call(one, "read", json!({ "path": "/workspace/a.txt" })).await.unwrap();
    agency.shell(one, "echo hello").await;
    agency.call(one, "read", json!({ "path": "/workspace/none" })).await.unwrap_err();
    let traces = agency.call(one, "session_list_traces", json!({})).await.unwrap();
    assert_eq!(traces["count"], 4);
    let second = traces["traces"][2].clone();
    assert_eq!(second["wakeId"], "run_2");
    let trace = agency.call(one, "session_get_trace", json!({ "wakeId": "run_2" })).await.unwrap();
    let types: Vec<&str> = trace["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    let expected = [
        "span.started",
        "session.status_changed",
        "agent.tool_use",
        "session.status_idle",
        "user.tool_confirmation",
        "span.started",
        "span.completed",
        "agent.tool_use",
        "span.completed",
        "session.status_idle",
    ];
    assert_eq!(types, expected);
    let blocking = &trace["events"][2];
    assert_eq!(blocking["output"], Value::Null);
    assert_eq!(trace["events"][3]["blockingEventIds"], json!([blocking["id"]]));
    assert_eq!(trace["events"][4]["allowed"], true);
    let spans = json!({ "wakeId": "run_2", "types": ["span.completed"] });
    let spans = agency.call(one, "session_get_trace", spans).await.unwrap();
    assert_eq!((&spans["count"], &spans["events"][0]["result"]), (&json!(2), &json!("success")));
    let failed = agency.call(one, "session_get_trace", json!({ "wakeId": "run_3" })).await.unwrap();
    assert!(failed.to_string().contains("\"result\":\"error\""));
    assert!(agency.call(one, "session_get_trace", json!({ "wakeId": "run_99" })).await.is_err());
    let around = json!({ "aroundEventId": blocking["id"], "beforeLimit": 1, "afterLimit": 1 });
    let around = agency.call(one, "session_get_events", around).await.unwrap();
    assert_eq!((&around["count"], &around["events"][1]["id"]), (&json!(3), &blocking["id"]));
    let after = json!({ "afterEventId": blocking["id"], "limit": 2 });
    let after = agency.call(one, "session_get_events", after).await.unwrap();
    assert_eq!(after["events"][0]["type"], "session.status_idle");
    let before = json!({ "beforeEventId": blocking["id"], "limit": 1 });
    let before = agency.call(one, "session_get_events", before).await.unwrap();
    assert_eq!(before["events"][0]["type"], "session.status_changed");
    assert!(agency.call(one, "session_get_events", json!({ "aroundEventId": "x" })).await.is_err());
}

// S2-T10, S2-43: how much of a model's context it takes; nothing before a model was asked.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t10_s2_43_a_session_without_a_model_has_no_budget_to_tell() {
    let agency = Agency::new();
    let one = agency.session("ada").await;
    let told = agency.call(one, "session_describe_context", json!({})).await.unwrap();
    assert_eq!(told["available"], false);
    assert!(told["reason"].is_string());
}
