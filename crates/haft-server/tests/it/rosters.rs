//! Agents over HTTP that give work to others.

use serde_json::{Value, json};

use crate::house::{House, Visitor};
use crate::threads::{of_kind, until};

/// Gives its work to the agent called Scout, and waits for what comes of it.
const BOSS: &str = r#"{"turns": [
    {"calls": [{"tool": "session_delegate", "arguments":
        {"agent": "Scout", "message": "look around", "wait": true}}]},
    {"expect": "It is clear.", "say": "All is done."}
]}"#;

/// Looks at one file, and tells.
const SCOUT: &str = r#"{"turns": [
    {"calls": [{"tool": "read", "arguments": {"file_path": "/workspace/none"}}]},
    {"say": "It is clear."}
], "then": "repeat"}"#;

/// Gives its work to whom it may not.
const LOST: &str = r#"{"turns": [
    {"calls": [
        {"tool": "session_delegate", "arguments": {"agent": "Eve", "message": "look around"}},
        {"tool": "session_delegate", "arguments": {"message": "look around"}}
    ]},
    {"say": "I do it myself."}
]}"#;

const SCRIPTS: [(&str, &str); 3] = [("boss", BOSS), ("scout", SCOUT), ("lost", LOST)];

/// An agent whose every call asks.
fn scout() -> Value {
    let policy = json!({"permission_policy": {"type": "always_ask"}});
    json!({
        "name": "Scout", "description": "Looks around.", "model": "scripted/scout",
        "system": "You look.",
        "tools": [{"type": "agent_toolset_20260401", "default_config": policy}],
    })
}

/// An agent that has no tools, and these to work for it.
fn boss(model: &str, agents: &Value) -> Value {
    let multiagent = json!({"type": "coordinator", "agents": agents});
    json!({"name": "Boss", "model": model, "multiagent": multiagent})
}

async fn declared(ann: &Visitor, agent: &Value) -> String {
    ann.post("/v1/agents", agent).await["id"].as_str().unwrap().to_owned()
}

/// Opens a session of an agent, and speaks to it.
async fn spoken_to(ann: &Visitor, agent: &str) -> Value {
    let environment = ann.post("/v1/environments", &json!({"name": "here"})).await;
    let said = json!({"type": "user.message", "content": [{"type": "text", "text": "go"}]});
    let session = json!({
        "agent": agent, "environment_id": environment["id"], "initial_events": [said],
    });
    ann.post("/v1/sessions", &session).await
}

fn reference(id: &str, version: u64) -> Value {
    json!({"type": "agent", "id": id, "version": version})
}

// S2-41: a roster names agents of the same tenant, each in a version, and is kept with the agent.
#[tokio::test(flavor = "multi_thread")]
async fn s2_41_a_roster_is_kept_in_versions_and_changes_with_the_agent() {
    let house = House::managed(&SCRIPTS).await;
    let ann = house.admin().await;
    let scout = declared(&ann, &scout()).await;
    let agents = json!([scout, {"type": "self"}]);
    let made = ann.post("/v1/agents", &boss("scripted/boss", &agents)).await;
    let id = made["id"].as_str().unwrap();
    let kept = |own: u64| json!({"type": "coordinator", "agents": [reference(&scout, 1), reference(id, own)]});
    assert_eq!(made["multiagent"], kept(1));

    ann.post(&format!("/v1/agents/{scout}"), &json!({"system": "You look twice."})).await;
    let path = format!("/v1/agents/{id}");
    let renamed = ann.post(&path, &json!({"description": "Has others work."})).await;
    assert_eq!(renamed["multiagent"], kept(2), "the others stay as they were");
    let pinned =
        json!({"type": "coordinator", "agents": [{"type": "agent", "id": scout, "version": 2}]});
    let changed = ann.post(&path, &json!({"multiagent": pinned})).await;
    assert_eq!(changed["multiagent"]["agents"], json!([reference(&scout, 2)]));
    let cleared = ann.post(&path, &json!({"multiagent": null})).await;
    assert_eq!(cleared["multiagent"], Value::Null);
    let versions = ann.get(&format!("{path}/versions")).await;
    assert_eq!(versions["data"][3]["multiagent"], kept(1));
}

// S2-41: what cannot be a roster is refused, and says why.
#[tokio::test(flavor = "multi_thread")]
async fn s2_41_what_cannot_be_a_roster_is_refused() {
    let house = House::managed(&SCRIPTS).await;
    let ann = house.admin().await;
    let id = declared(&ann, &scout()).await;
    let namesake = declared(&ann, &scout()).await;
    let coordinator = declared(&ann, &boss("scripted/boss", &json!([id]))).await;
    let eve = house.visitor("other", "eve", &[haft_server::Scope::Admin]).await;
    let foreign = declared(&eve, &scout()).await;
    let gone = declared(&ann, &json!({"name": "Gone", "model": "scripted/scout"})).await;
    ann.post(&format!("/v1/agents/{gone}/archive"), &Value::Null).await;
    let itself = json!({"type": "self"});
    let refused = [
        (json!([]), 400, "expected 1 to 20"),
        (json!(vec![id.clone(); 21]), 400, "expected 1 to 20"),
        (json!([id, id]), 400, "stands there twice"),
        (json!([itself, itself]), 400, "stands there twice"),
        (json!([id, namesake]), 400, "two agents are called"),
        (json!([coordinator]), 400, "gives work to others itself"),
        (json!([gone]), 400, "is archived"),
        (json!([foreign]), 404, "no agent"),
        (json!(["agent_none"]), 404, "no agent"),
        (json!([reference(&id, 7)]), 404, "version of the agent"),
        (json!([{"type": "advisor", "model": "claude-opus-5-5"}]), 400, "is not supported"),
    ];
    for (agents, status, why) in refused {
        let told = ann.refused("POST", "/v1/agents", &boss("scripted/boss", &agents), status).await;
        assert!(told.contains(why), "{agents}: {told}");
    }
    let other = json!({"name": "Boss", "model": "scripted/boss", "multiagent": {"type": "swarm"}});
    let told = ann.refused("POST", "/v1/agents", &other, 400).await;
    assert!(told.contains("coordinator"), "{told}");
}

// S2-41, S2-T15, S3-37: an agent of the roster works with its own model, system and tools, asks
// at the top, and its last word is the result.
#[tokio::test(flavor = "multi_thread")]
async fn s2_41_s2_t15_s3_37_an_agent_of_the_roster_does_the_work_and_asks_at_the_top() {
    let house = House::managed(&SCRIPTS).await;
    let ann = house.admin().await;
    let scout_id = declared(&ann, &scout()).await;
    let boss_id = declared(&ann, &boss("scripted/boss", &json!([scout_id]))).await;
    ann.post(&format!("/v1/agents/{scout_id}"), &json!({"model": "scripted/lost"})).await;
    let session = spoken_to(&ann, &boss_id).await;
    let roster = &session["agent"]["multiagent"]["agents"][0];
    assert_eq!((&roster["id"], &roster["version"]), (&json!(scout_id), &json!(1)));
    assert_eq!(
        (&roster["system"], &roster["model"]["id"]),
        (&json!("You look."), &json!("scripted/scout"))
    );
    let path = format!("/v1/sessions/{}", session["id"].as_str().unwrap());
    let threads = format!("{path}/threads");
    let listed = until(&ann, &threads, |found| found["data"][1]["status"] == "idle").await;
    let (main, child) = (&listed["data"][0], &listed["data"][1]);
    assert_eq!(child["parent_thread_id"], main["id"]);
    assert_eq!((&child["agent"]["id"], &child["agent"]["version"]), (&json!(scout_id), &json!(1)));
    assert_eq!(child["agent"]["name"], "Scout");

    let asks = |found: &Value| !of_kind(found, "session.status_idle").is_empty();
    let here = until(&ann, &format!("{path}/events"), asks).await;
    let asked = of_kind(&here, "agent.tool_use")[1];
    assert_eq!((&asked["name"], &asked["evaluated_permission"]), (&json!("read"), &json!("ask")));
    let yes = json!({"events": [
        {"type": "user.tool_confirmation", "tool_use_id": asked["id"], "result": "allow"},
    ]});
    ann.post(&format!("{path}/events"), &yes).await;
    let said = |found: &Value| !of_kind(found, "agent.message").is_empty();
    let here = until(&ann, &format!("{path}/events"), said).await;
    let created = of_kind(&here, "session.thread_created")[0];
    assert_eq!(
        (&created["agent_name"], &created["session_thread_id"]),
        (&json!("Scout"), &child["id"])
    );
    assert_eq!(of_kind(&here, "agent.message")[0]["content"][0]["text"], "All is done.");
}

// S2-41: work is given to the roster only; the model is told who that is.
#[tokio::test(flavor = "multi_thread")]
async fn s2_41_whoever_is_not_on_the_roster_gets_no_work() {
    let house = House::managed(&SCRIPTS).await;
    let ann = house.admin().await;
    let scout = declared(&ann, &scout()).await;
    let boss = declared(&ann, &boss("scripted/lost", &json!([scout]))).await;
    let session = spoken_to(&ann, &boss).await;
    let path = format!("/v1/sessions/{}/events", session["id"].as_str().unwrap());
    let said = |found: &Value| !of_kind(found, "agent.message").is_empty();
    let events = until(&ann, &path, said).await;
    let results = of_kind(&events, "agent.tool_result");
    assert_eq!(results.len(), 2);
    for result in results {
        assert_eq!(result["is_error"], true);
        let told = result["content"][0]["text"].as_str().unwrap();
        assert!(told.contains("`Scout`"), "{told}");
    }
    assert!(of_kind(&events, "session.thread_created").is_empty());
}

fn kinds(events: &Value) -> Vec<&str> {
    let events = events["data"].as_array().unwrap().iter();
    let kinds = events.map(|event| event["type"].as_str().unwrap());
    kinds.filter(|kind| !kind.starts_with("span.")).collect()
}

// S2-14, S2-41: whoever watches only the session sees what a sub-agent asks and how it goes, in
// an order that stays.
#[tokio::test(flavor = "multi_thread")]
async fn s2_14_s2_41_what_a_sub_agent_asks_is_shown_at_the_session() {
    let house = House::managed(&SCRIPTS).await;
    let ann = house.admin().await;
    let scout = declared(&ann, &scout()).await;
    let boss = declared(&ann, &boss("scripted/boss", &json!([scout]))).await;
    let session = spoken_to(&ann, &boss).await;
    let path = format!("/v1/sessions/{}", session["id"].as_str().unwrap());
    let events = format!("{path}/events");
    let asks = |found: &Value| !of_kind(found, "session.status_idle").is_empty();
    let asked = until(&ann, &events, asks).await;
    let (own, below) = (of_kind(&asked, "agent.tool_use")[0], of_kind(&asked, "agent.tool_use")[1]);
    let thread = &of_kind(&asked, "session.thread_created")[0]["session_thread_id"];
    assert_eq!((&own["name"], own.get("session_thread_id")), (&json!("session_delegate"), None));
    assert_eq!((&below["name"], &below["session_thread_id"]), (&json!("read"), thread));
    let reason = json!({"type": "requires_action", "event_ids": [below["id"]]});
    let rests = of_kind(&asked, "session.thread_status_idle")[0];
    assert_eq!((&rests["stop_reason"], &rests["agent_name"]), (&reason, &json!("Scout")));
    assert_eq!(of_kind(&asked, "session.status_idle")[0]["stop_reason"], reason);
    assert_eq!(ann.get(&path).await["status"], "idle");
    let shown = kinds(&asked);
    let tail = ["agent.tool_use", "session.thread_status_idle", "session.status_idle"];
    assert!(shown.ends_with(&tail), "{shown:?}");

    let no = json!({
        "type": "user.tool_confirmation", "tool_use_id": below["id"], "result": "deny",
    });
    ann.post(&events, &json!({"events": [no]})).await;
    let said = |found: &Value| of_kind(found, "session.status_idle").len() > 1;
    let done = until(&ann, &events, said).await;
    let (before, after) = (asked["data"].as_array().unwrap(), done["data"].as_array().unwrap());
    assert_eq!(before[..], after[..before.len()], "nothing moves");
    let elsewhere = house.admin_elsewhere().await;
    assert_eq!(elsewhere.get(&events).await, done, "whoever reads it all later sees the same");
    let rests = of_kind(&done, "session.thread_status_idle");
    assert_eq!((rests.len(), &rests[1]["stop_reason"]["type"]), (2, &json!("end_turn")));
    let shown = kinds(&done);
    let at = |kind: &str| shown.iter().rposition(|shown| *shown == kind).unwrap();
    assert!(at("session.thread_status_idle") < at("agent.tool_result"), "{shown:?}");
    let mut ids: Vec<&str> = after.iter().map(|event| event["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), after.len());
}
