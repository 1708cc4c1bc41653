//! Document 002's events, each in its situation, as another session of the agent reads them.

use std::time::Duration;

use haft_core::session::{
    Activity, Agent, Config, Driver, Goal, GoalSet, Input, Returned, SuspensionKind, Toolset,
};
use haft_core::tool::{Definition, Executor, Gate, Mutates, Ownership, Schema};
use haft_core::{CallId, CallResult, ContentBlock, Directives, Output, SessionId, ToolName};
use haft_runtime::testing::{QueuedModel, TestNode, object, user};
use haft_runtime::{
    Answer, Delegated, Response, Tool, ToolArguments, ToolContext, ToolError, ToolFuture,
};
use haft_store::{Page, PendingFilter};
use haft_tools::Classifier;
use serde_json::{Value, json};

use crate::place::{PATIENCE, Place, result};

fn defined(name: &str) -> Definition {
    let nothing = json!({ "type": "object", "properties": {}, "additionalProperties": false });
    let schema = Schema::from_value(&nothing).unwrap();
    let mut definition = Definition::new(ToolName::new(name).unwrap(), "Does its work.", schema);
    definition.gate = Gate::Auto;
    definition
}

fn config(driver: Driver, own: Vec<Definition>) -> Config {
    let agent = Some(Agent {
        id: "ada".to_owned(),
        version: 1,
        model: "scripted".to_owned(),
        instructions: None,
        environment: None,
    });
    Config { driver, agent, toolset: Toolset { own, ..Toolset::default() }, ..Config::default() }
}

fn text(said: &str) -> Vec<ContentBlock> {
    vec![ContentBlock::Text { text: said.to_owned() }]
}

/// Gives its calls to a child session.
struct Helper;

impl Tool for Helper {
    fn definition(&self) -> Definition {
        let mut definition = defined("helper");
        definition.facets.mutates = Some(Mutates::None);
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
        Ok(Some(Delegated::to(config(Driver::Model, Vec::new()), text("do it"))))
    }
}

struct Watched {
    node: TestNode,
    session: SessionId,
    /// The session that reads.
    reader: SessionId,
}

impl Watched {
    async fn until<T>(look: impl AsyncFn() -> Option<T>) -> T {
        let began = std::time::Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it does not come");
    }

    async fn waits_for(&self, kind: SuspensionKind) -> CallId {
        let filter = PendingFilter {
            session: Some(self.session),
            kind: Some(kind),
            ..PendingFilter::default()
        };
        Self::until(async || {
            let rows = self.node.haft().store().pending(&filter, &Page::first(1)).await.unwrap();
            rows.first().map(|row| row.call)
        })
        .await
    }

    async fn rests(&self) {
        Self::until(async || {
            let loaded = self.node.haft().store().load(self.session).await.unwrap().unwrap();
            (loaded.state.as_open()?.activity == Activity::Idle).then_some(())
        })
        .await;
    }

    async fn resolve(&self, call: CallId, response: Response) {
        self.node.haft().resolve(self.session, call, user("ann"), response).await.unwrap();
    }

    async fn say(&self, said: &str) {
        self.node.haft().say(self.session, user("ann"), text(said)).await.unwrap();
    }

    /// All events, page after page from the first.
    async fn events(&self) -> Vec<Value> {
        let mut events: Vec<Value> = Vec::new();
        let mut after = json!("evt_0_0");
        loop {
            let wanted = json!({ "sessionId": self.session, "afterEventId": after, "limit": 20 });
            let tool = "session_get_events";
            let read = self.node.haft().call(self.reader, tool, object(wanted)).await.unwrap();
            let Answer::Done(outcome) = read else { panic!("{tool} waits") };
            let page = result(&outcome).unwrap()["events"].as_array().unwrap().clone();
            let Some(last) = page.last() else { return events };
            after = last["id"].clone();
            events.extend(page);
        }
    }
}

fn script() -> QueuedModel {
    QueuedModel::new()
        .calls([("shell_run", json!({ "command": "echo hi" }))])
        .calls([("pick", json!({}))])
        .calls([("helper", json!({}))])
        .says("the child is done")
        .says("all is done")
        .calls([("shell_run", json!({ "command": "echo again" }))])
}

/// A session in which everything happens that document 002 has an event for.
async fn eventful() -> (Watched, Place, [CallId; 2]) {
    let place = Place::new();
    let builder = place.builder(Classifier::Known).tool(Helper).model(script());
    let node = place.store().start(builder);
    let mut pick = defined("pick");
    pick.executor = Executor::Client;
    pick.ownership = Ownership::Custom;
    let session = node.session_with(config(Driver::Model, vec![pick])).await;
    let reader = node.session_with(config(Driver::Caller, Vec::new())).await;
    let watched = Watched { node, session, reader };
    let goal = Goal::new("ship", None, ["it is out"]).unwrap();
    let aim = Input::GoalSet(GoalSet { goal, by: user("ann") });
    watched.node.haft().driver().input(session, aim).await.unwrap();
    watched.say("go").await;
    let shell = watched.waits_for(SuspensionKind::Approval).await;
    let note = Some("fine".to_owned());
    watched.resolve(shell, Response::Approve { arguments: None, note, grant: None }).await;
    let pick = watched.waits_for(SuspensionKind::ClientExec).await;
    let picked = CallResult::Ok(Output::of_text("blue".to_owned()));
    let response = Response::Result { result: picked, directives: Directives::default() };
    watched.resolve(pick, response).await;
    watched.rests().await;
    (watched, place, [shell, pick])
}

fn only<'a>(events: &'a [Value], kind: &str) -> &'a Value {
    let mut found = events.iter().filter(|event| event["type"] == kind);
    let only = found.next().unwrap_or_else(|| panic!("no {kind}"));
    assert!(found.next().is_none(), "several {kind}");
    only
}

/// The members of an event, by name.
fn members<'a>(event: &'a Value, names: &[&str]) -> Vec<&'a Value> {
    names.iter().map(|name| &event[name]).collect()
}

// S2-10, S2-11, S2-E1, S2-E2, S2-E4, S2-E5, S2-E9, S2-E12, S2-E13, S2-E14: what people and the
// agent say to each other, and what blocks.
#[tokio::test(flavor = "multi_thread")]
async fn s2_10_s2_11_s2_e1_s2_e2_s2_e4_s2_e5_s2_e9_s2_e12_s2_e13_s2_e14_what_is_said_is_told() {
    let (watched, _place, [shell, pick]) = eventful().await;
    let events = watched.events().await;
    let said = only(&events, "user.message");
    assert_eq!(said["message"], "go");
    assert!(said["processedAt"].is_string(), "{said}");
    let outcome = json!({ "title": "ship", "detail": null, "successCriteria": ["it is out"] });
    assert_eq!(only(&events, "user.define_outcome")["outcome"], outcome);
    let confirmed = only(&events, "user.tool_confirmation");
    assert_eq!(
        members(confirmed, &["requestId", "toolName", "allowed", "note"]),
        [&json!(shell), &json!("shell_run"), &json!(true), &json!("fine")]
    );
    let handed_in = only(&events, "user.custom_tool_result");
    assert_eq!(
        members(handed_in, &["requestId", "toolName", "output"]),
        [&json!(pick), &json!("pick"), &json!("blue")]
    );
    let asked = only(&events, "agent.custom_tool_use");
    assert_eq!(members(asked, &["requestId", "input"]), [&json!(pick), &json!({})]);
    let uses: Vec<&Value> = events
        .iter()
        .filter(|e| e["type"] == "agent.tool_use" && e["requestId"] == json!(shell))
        .collect();
    assert_eq!(uses.len(), 2);
    assert_eq!(
        members(uses[0], &["output", "permissionPolicy", "toolName"]),
        [&Value::Null, &json!("always_ask"), &json!("shell_run")]
    );
    assert!(uses[1]["output"].as_str().unwrap().contains("hi"));
    let idle: Vec<&Value> =
        events.iter().filter(|event| event["type"] == "session.status_idle").collect();
    let blocking: Vec<&Value> = idle.iter().map(|event| &event["blockingEventIds"]).collect();
    assert_eq!(blocking, [&json!([uses[0]["id"]]), &json!([asked["id"]]), &Value::Null]);
    assert_eq!(idle[0]["reason"], "requires_action");
    assert_eq!(idle[2]["reason"], "idle");
    let answer = only(&events, "agent.message");
    assert_eq!(members(answer, &["message", "summary"]), [&json!("all is done"); 2]);
    for event in [confirmed, handed_in, asked, uses[0], uses[1], idle[0], idle[2], answer] {
        assert_eq!(event["wakeId"], "run_1", "{event}");
    }
}

// S2-E3, S2-E6, S2-E7, S2-E8, S2-E10, S2-E11: children, spans, changes of status, interrupts; and
// the log only grows.
#[tokio::test(flavor = "multi_thread")]
async fn s2_e3_s2_e6_s2_e7_s2_e8_s2_e10_s2_e11_what_is_done_is_told_and_stays_told() {
    let (watched, _place, [shell, _]) = eventful().await;
    let events = watched.events().await;
    let created = only(&events, "session.child_created");
    let child = &created["childSessionId"];
    assert_eq!(created["message"], "do it");
    let rested = only(&events, "session.child_idle");
    assert_eq!(
        members(rested, &["childSessionId", "childStopReason", "summary"]),
        [child, &json!("idle"), &json!("the child is done")]
    );
    let changed = only(&events, "session.status_changed");
    assert_eq!(
        members(changed, &["fromStatus", "toStatus", "reason"]),
        [&json!("idle"), &json!("running"), &json!("wake")]
    );
    let span = |kind: &str, id: &Value| {
        let found = events.iter().find(|event| event["type"] == kind && event["spanId"] == *id);
        found.unwrap_or_else(|| panic!("no {kind} of {id}")).clone()
    };
    let (wake, tool) = (json!("run_1"), json!(format!("{shell}/1")));
    for (id, kind) in [(&wake, "wake"), (&tool, "tool")] {
        let (started, completed) = (span("span.started", id), span("span.completed", id));
        assert_eq!((&started["spanKind"], &completed["spanKind"]), (&json!(kind), &json!(kind)));
        assert_eq!((&completed["result"], &completed["wakeId"]), (&json!("success"), &wake));
    }
    assert_eq!(span("span.started", &tool)["parentSpanId"], wake);
    for event in [created, rested, changed] {
        assert_eq!(event["wakeId"], wake, "{event}");
    }
    watched.say("more").await;
    watched.waits_for(SuspensionKind::Approval).await;
    let (haft, note) = (watched.node.haft(), Some("stop".to_owned()));
    haft.interrupt(watched.session, user("ann"), note).await.unwrap();
    let later = watched.events().await;
    assert_eq!(later[..events.len()], events, "what was told is told the same again");
    let second = later.iter().rfind(|e| e["type"] == "span.started" && e["spanKind"] == "wake");
    let second = &second.unwrap()["spanId"];
    assert_ne!(*second, wake);
    let interrupted = only(&later, "user.interrupt");
    assert_eq!(members(interrupted, &["note", "wakeId"]), [&json!("stop"), second]);
    let ids: Vec<&str> = later.iter().map(|event| event["id"].as_str().unwrap()).collect();
    let places: Vec<(u64, u64)> = ids
        .iter()
        .map(|id| {
            let (seq, part) = id.trim_start_matches("evt_").split_once('_').unwrap();
            (seq.parse().unwrap(), part.parse().unwrap())
        })
        .collect();
    assert!(places.is_sorted_by(|one, next| one < next), "{ids:?}");
}
