//! Sub-agents over HTTP: each is a thread of the session that its people have.

use std::time::Duration;

use haft_core::session::{Agent, Config, Returned};
use haft_core::tool::{Definition, Gate, Mutates, Schema};
use haft_core::{ContentBlock, Output};
use haft_runtime::{Delegated, Tool, ToolArguments, ToolContext, ToolError, ToolFuture, Until};
use serde_json::{Value, json};

use crate::house::{House, Visitor};

/// A model that gives its work away once, and then sums up.
pub(crate) const BOSS: &str = r#"{
    "turns": [
        {"calls": [{"tool": "glob", "arguments": {}}]},
        {"say": "All is done."}
    ],
    "then": "repeat"
}"#;

/// Gives its calls to a sub-agent.
pub(crate) struct Scout {
    /// What the sub-agent is.
    pub(crate) model: &'static str,
    /// Whether its calls wait for what came of it.
    pub(crate) waits: bool,
}

impl Tool for Scout {
    fn definition(&self) -> Definition {
        let schema = Schema::from_value(&json!({"type": "object", "properties": {}})).unwrap();
        let name = "agent_glob".parse().unwrap();
        let mut definition = Definition::new(name, "Has someone look.", schema);
        definition.facets.mutates = Some(Mutates::None);
        definition.gate = Gate::Auto;
        definition
    }

    fn call(
        &self,
        _: ToolArguments,
        _: ToolContext,
    ) -> ToolFuture<'_, Result<Returned, ToolError>> {
        Box::pin(async { Err(ToolError::internal("it is given away")) })
    }

    fn delegates(
        &self,
        _: &ToolArguments,
        _: &ToolContext,
    ) -> Result<Option<Delegated>, ToolError> {
        let agent = Some(Agent {
            id: "scout".to_owned(),
            version: 1,
            model: self.model.to_owned(),
            instructions: None,
            environment: None,
        });
        let config = Config { agent, ..Config::default() };
        let mut given = Delegated::to(config, vec![ContentBlock::Text { text: "look".to_owned() }]);
        if !self.waits {
            let told = |child| Output::of_value(json!({ "session": child }));
            given.until = Until::Opening(Box::new(told));
        }
        Ok(Some(given))
    }
}

async fn house(waits: bool) -> House {
    let scout = Scout { model: "scripted/asks", waits };
    House::with(|builder| builder.tool(scout), &[("boss", BOSS)]).await
}

/// Opens a session of an agent that has a sub-agent, and speaks to it.
async fn spoken_to(ann: &Visitor) -> String {
    let session = opened(ann).await;
    let said = json!({"type": "user.message", "content": [{"type": "text", "text": "go"}]});
    ann.post(&format!("/v1/sessions/{session}/events"), &json!({"events": [said]})).await;
    session
}

async fn opened(ann: &Visitor) -> String {
    let environment = ann.post("/v1/environments", &json!({"name": "here"})).await;
    let asks = json!({"permission_policy": {"type": "always_ask"}});
    let free = json!({"name": "glob", "permission_policy": {"type": "always_allow"}});
    let toolset = json!({
        "type": "agent_toolset_20260401", "default_config": asks, "configs": [free],
    });
    let agent = json!({"name": "Boss", "model": "scripted/boss", "tools": [toolset]});
    let agent = ann.post("/v1/agents", &agent).await;
    let session = json!({"agent": agent["id"], "environment_id": environment["id"]});
    ann.post("/v1/sessions", &session).await["id"].as_str().unwrap().to_owned()
}

/// How long to wait for a state before a test fails. No test passes or fails by how long it takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

pub(crate) async fn until(ann: &Visitor, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let began = std::time::Instant::now();
    while began.elapsed() < PATIENCE {
        let found = ann.get(path).await;
        if holds(&found) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{path}: {}", ann.get(path).await)
}

pub(crate) fn of_kind<'a>(events: &'a Value, kind: &str) -> Vec<&'a Value> {
    let events = events["data"].as_array().unwrap().iter();
    events.filter(|event| event["type"] == kind).collect()
}

// S2-41, S4-35: the threads of a session are itself and its sub-agents; what they ask is answered
// at the top.
#[tokio::test(flavor = "multi_thread")]
async fn s2_41_s4_35_a_sub_agents_thread_is_listed_and_its_call_approved_at_the_top() {
    let house = house(true).await;
    let ann = house.admin().await;
    let session = spoken_to(&ann).await;
    let path = format!("/v1/sessions/{session}");
    let threads = format!("{path}/threads");
    let listed = until(&ann, &threads, |found| found["data"][1].is_object()).await;
    let child = listed["data"][1]["id"].as_str().unwrap();
    let events = format!("{threads}/{child}/events");
    let asks = |found: &Value| !of_kind(found, "session.status_idle").is_empty();
    let below = until(&ann, &events, asks).await;
    let here = until(&ann, &format!("{path}/events"), asks).await;
    let listed = ann.get(&threads).await;
    let (main, child) = (&listed["data"][0], &listed["data"][1]);
    assert_eq!((&main["status"], &main["parent_thread_id"]), (&json!("idle"), &Value::Null));
    assert_eq!((&child["parent_thread_id"], &child["session_id"]), (&main["id"], &json!(session)));
    assert_eq!(child["status"], "idle");
    let child = child["id"].as_str().unwrap();

    let asked = of_kind(&below, "agent.tool_use")[0];
    assert_eq!((&asked["name"], &asked["evaluated_permission"]), (&json!("bash"), &json!("ask")));
    let idle = of_kind(&below, "session.status_idle")[0];
    assert_eq!(idle["stop_reason"]["event_ids"], json!([asked["id"]]));
    assert_eq!(of_kind(&here, "session.thread_created")[0]["session_thread_id"], child);
    let shown = of_kind(&here, "agent.tool_use")[1];
    assert_eq!((&shown["id"], &shown["session_thread_id"]), (&asked["id"], &json!(child)));
    assert_eq!(of_kind(&here, "session.status_idle")[0]["stop_reason"], idle["stop_reason"]);

    let other = house.visitor("other", "eve", &[haft_server::Scope::Admin]).await;
    other.refused("GET", &events, &Value::Null, 404).await;
    let yes = json!({"events": [
        {"type": "user.tool_confirmation", "tool_use_id": asked["id"], "result": "allow"},
    ]});
    let sent = ann.post(&format!("{path}/events"), &yes).await;
    assert_eq!(sent["data"][0]["session_thread_id"], child);
    let again = ann.refused("POST", &format!("{path}/events"), &yes, 400).await;
    assert!(again.contains("is not waiting"), "{again}");

    let said = |found: &Value| !of_kind(found, "agent.message").is_empty();
    until(&ann, &format!("{path}/events"), said).await;
    until(&ann, &path, |found| found["status"] == "idle").await;
    let here = ann.get(&format!("{path}/events")).await;
    let result = of_kind(&here, "agent.tool_result")[0];
    assert_eq!(result["content"][0]["text"], "Done.");
    assert!(of_kind(&here, "user.custom_tool_result").is_empty(), "nobody handed it in");
    assert_eq!(of_kind(&here, "session.status_idle").len(), 2);
}

// A sub-agent that is at rest is archived: it takes no more work, and what it said stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_thread_at_rest_is_archived_and_one_that_waits_is_not() {
    let house = house(false).await;
    let ann = house.admin().await;
    let session = spoken_to(&ann).await;
    let path = format!("/v1/sessions/{session}");
    let threads = format!("{path}/threads");
    let listed = until(&ann, &threads, |found| found["data"][1]["status"] == "idle").await;
    let thread = |at: usize| format!("{threads}/{}", listed["data"][at]["id"].as_str().unwrap());
    let child = thread(1);
    let archive = format!("{child}/archive");
    let asks = |found: &Value| !of_kind(found, "session.status_idle").is_empty();
    let events = until(&ann, &format!("{child}/events"), asks).await;
    let why = ann.refused("POST", &archive, &Value::Null, 400).await;
    assert!(why.contains("waits for an answer"), "{why}");
    let main = format!("{}/archive", thread(0));
    assert!(ann.refused("POST", &main, &Value::Null, 400).await.contains("archive the session"));

    let asked = &of_kind(&events, "agent.tool_use")[0]["id"];
    let yes = json!({"type": "user.tool_confirmation", "tool_use_id": asked, "result": "allow"});
    ann.post(&format!("{path}/events"), &json!({"events": [yes]})).await;
    let said = |found: &Value| of_kind(found, "agent.message").len() == 2;
    until(&ann, &format!("{child}/events"), said).await;
    let mut archived = Value::Null;
    let began = std::time::Instant::now();
    while began.elapsed() < PATIENCE {
        let (status, body) = ann.ask("POST", &archive, &Value::Null).await;
        archived = body;
        if status == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(archived["archived_at"].is_string(), "{archived}");
    until(&ann, &child, |found| found["status"] == "terminated").await;
    let again = ann.post(&archive, &Value::Null).await;
    assert_eq!(again["archived_at"], archived["archived_at"]);
    let over = |found: &Value| !of_kind(found, "session.thread_status_terminated").is_empty();
    until(&ann, &format!("{path}/events"), over).await;
    assert_eq!(of_kind(&ann.get(&format!("{child}/events")).await, "agent.message").len(), 2);
    assert_eq!(ann.get(&thread(0)).await["archived_at"], Value::Null);
    let eve = house.visitor("other", "eve", &[haft_server::Scope::Admin]).await;
    eve.refused("POST", &archive, &Value::Null, 404).await;
}

// A sub-agent that is about to be opened will run, so that nobody may call it archived.
#[tokio::test(flavor = "multi_thread")]
async fn a_thread_that_is_not_open_yet_is_not_archived() {
    let house = house(false).await;
    let ann = house.admin().await;
    let session = opened(&ann).await;
    let database = rusqlite::Connection::open(house.data.path().join("haft.db")).unwrap();
    let none = "CREATE TRIGGER none BEFORE INSERT ON sessions
                BEGIN SELECT RAISE(ABORT, 'none'); END";
    database.execute_batch(none).unwrap();
    let path = format!("/v1/sessions/{session}");
    let said = json!({"type": "user.message", "content": [{"type": "text", "text": "go"}]});
    ann.post(&format!("{path}/events"), &json!({"events": [said]})).await;
    let began = |found: &Value| !of_kind(found, "session.thread_created").is_empty();
    let events = until(&ann, &format!("{path}/events"), began).await;
    let child = &of_kind(&events, "session.thread_created")[0]["session_thread_id"];
    let child = format!("{path}/threads/{}", child.as_str().unwrap());
    ann.refused("POST", &format!("{child}/archive"), &Value::Null, 404).await;
    database.execute_batch("DROP TRIGGER none").unwrap();
    let listed =
        until(&ann, &format!("{path}/threads"), |found| found["data"][1].is_object()).await;
    assert_eq!(listed["data"][1]["archived_at"], Value::Null);
}

// S2-41: an interrupt stops every thread, also one that nobody waits for; deleting ends them.
#[tokio::test(flavor = "multi_thread")]
async fn s2_41_an_interrupt_reaches_a_sub_agent_that_works_on_its_own() {
    let house = house(false).await;
    let ann = house.admin().await;
    let session = spoken_to(&ann).await;
    let path = format!("/v1/sessions/{session}");
    until(&ann, &path, |found| found["status"] == "idle").await;
    let threads = format!("{path}/threads");
    let listed = until(&ann, &threads, |found| found["data"][1]["status"] == "idle").await;
    let child = listed["data"][1]["id"].as_str().unwrap();
    let events = format!("{threads}/{child}/events");
    let asks = |found: &Value| !of_kind(found, "session.status_idle").is_empty();
    until(&ann, &events, asks).await;
    let stop = json!({"events": [{"type": "user.interrupt"}]});
    ann.post(&format!("{path}/events"), &stop).await;
    until(&ann, &events, |found| !of_kind(found, "user.interrupt").is_empty()).await;
    let id = session.parse().unwrap();
    assert!(house.haft.waits_below(id).await.unwrap().is_empty());
    let (status, _) = ann.ask("DELETE", &path, &Value::Null).await;
    assert_eq!(status, 200);
    for below in house.haft.below(id).await.unwrap() {
        let loaded = house.haft.store().load(below).await.unwrap().unwrap();
        assert!(loaded.state.as_open().is_none(), "it has ended");
    }
}
