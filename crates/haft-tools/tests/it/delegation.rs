//! Work that a session gives to another one of its agent, and goes on beside.

use std::sync::Arc;
use std::time::Duration;

use haft_core::permission::Exposure;
use haft_core::session::{Agent, Config, Driver};
use haft_core::{ContentBlock, SessionId};
use haft_runtime::testing::{QueuedModel, TestNode, object, user};
use haft_runtime::{Answer, Model, ModelAnswer, ModelError, ModelRequest, Response, ToolFuture};
use haft_store::Pending;
use haft_tools::Classifier;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::place::{PATIENCE, Place, result};

/// A program's session of an agent that has a few tools only.
fn config() -> Config {
    let agent = Some(Agent {
        id: "ada".to_owned(),
        version: 1,
        model: "scripted".to_owned(),
        instructions: None,
        environment: None,
    });
    let tools = ["session_delegate", "session_run_child", "session_list_children"];
    let more = ["session_get_events", "shell_run", "outcome_define"];
    let allow = tools.iter().chain(&more).map(|tool| tool.parse().unwrap()).collect();
    let exposure = Exposure { allow: Some(allow), ..Exposure::default() };
    Config { driver: Driver::Caller, agent, exposure, ..Config::default() }
}

async fn called(
    node: &TestNode,
    session: SessionId,
    tool: &str,
    arguments: Value,
) -> Result<Value, String> {
    match node.haft().call(session, tool, object(arguments)).await {
        Ok(Answer::Done(outcome)) => result(&outcome),
        Ok(other) => panic!("{tool} waits: {other:?}"),
        Err(error) => Err(error.to_string()),
    }
}

async fn delegated(node: &TestNode, session: SessionId) -> (SessionId, Value) {
    let work = json!({
        "message": "say hi", "title": "greeting", "successCriteria": ["it said hi"],
    });
    let answer = called(node, session, "session_delegate", work).await.unwrap();
    (answer["childSession"]["sessionId"].as_str().unwrap().parse().unwrap(), answer)
}

/// The one approval that waits in a session or below it.
async fn waiting(node: &TestNode, session: SessionId) -> Pending {
    let began = std::time::Instant::now();
    while began.elapsed() < PATIENCE {
        if let Some(pending) = node.haft().waits_below(session).await.unwrap().pop() {
            return pending;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("nothing waits");
}

fn greeter() -> QueuedModel {
    QueuedModel::new().calls([("shell_run", json!({ "command": "echo hi" }))]).says("it said hi")
}

async fn approve(node: &TestNode, pending: &Pending) {
    let yes = Response::Approve { arguments: None, note: None, grant: None };
    node.haft().resolve(pending.session, pending.call, user("ann"), yes).await.unwrap();
}

fn kinds(events: &Value) -> Vec<&str> {
    let events = events["events"].as_array().unwrap().iter();
    events.map(|event| event["type"].as_str().unwrap()).collect()
}

// S2-T15, S2-T16, S2-34, S2-41, S2-42: a child is there at once, works on its own, and is asked
// about at the top; its parent looks after it when it wants to.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t15_s2_t16_s2_34_s2_41_s2_42_a_child_works_on_its_own_and_is_looked_after() {
    let place = Place::new();
    let node = place.store().start(place.builder(Classifier::Known).model(greeter()));
    let parent = node.session_with(config()).await;
    let (child, answer) = delegated(&node, parent).await;
    assert_eq!(answer["parentSessionId"], json!(parent));
    assert_eq!(answer["seededEventIds"], json!(["evt_2_0", "evt_3_0"]));
    assert_eq!(answer["childSession"]["relationToCurrent"], "child");
    assert_eq!(answer["childSession"]["outcomeStatus"], "not_ready");

    let pending = waiting(&node, parent).await;
    assert_eq!((pending.session, node.haft().root(child).await.unwrap()), (child, parent));
    let run = json!({ "sessionId": child });
    let stuck = called(&node, parent, "session_run_child", run.clone()).await.unwrap();
    assert_eq!((&stuck["loopStopReason"], &stuck["executedCycles"]), (&json!("idle"), &json!(0)));
    assert_eq!(stuck["childStopReason"], "requires_action");
    assert_eq!(stuck["childSession"]["pendingActionToolName"], "shell_run");
    assert_eq!(stuck["response"], Value::Null);

    let watching = called(&node, parent, "session_run_child", run.clone());
    approve(&node, &pending).await;
    watching.await.unwrap();
    let done = called(&node, parent, "session_run_child", run).await.unwrap();
    assert_eq!(
        (&done["childStopReason"], &done["response"]),
        (&json!("idle"), &json!("it said hi"))
    );
    let summary = &done["childSession"];
    assert_eq!((&summary["status"], &summary["childCount"]), (&json!("idle"), &json!(0)));
    for member in ["agentSetupFingerprint", "resourceContractFingerprint", "outcomeTrend"] {
        assert!(summary.get(member).is_some(), "{member}");
    }
    assert!(summary["promotionReady"].is_boolean() && summary.get("nextOutcomeStep").is_some());

    let here = called(&node, parent, "session_get_events", json!({ "limit": 100 })).await.unwrap();
    let told = kinds(&here);
    assert_eq!(told.iter().filter(|kind| **kind == "session.child_created").count(), 1);
    assert_eq!(told.iter().filter(|kind| **kind == "session.child_idle").count(), 3);
    let there = json!({ "sessionId": child });
    let there = called(&node, parent, "session_get_events", there).await.unwrap();
    assert_eq!(kinds(&there)[..2], ["user.define_outcome", "user.message"]);
    let below = called(&node, parent, "session_list_children", json!({})).await.unwrap();
    assert_eq!(below["sessions"][0]["sessionId"], json!(child));
    node.record(parent).await.assert_paired();
    node.record(child).await.assert_paired();
}

// S2-T15, S2-41, S3-37: a child may do nothing that its parent may not.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t15_a_child_has_its_parents_permissions_at_most() {
    let place = Place::new();
    let node = place.store().start(place.builder(Classifier::Known).model(greeter()));
    let parent = node.session_with(config()).await;
    let (child, _) = delegated(&node, parent).await;
    let loaded = node.haft().store().load(child).await.unwrap().unwrap();
    let open = loaded.state.as_open().unwrap();
    let own = config();
    assert_eq!((&open.config.exposure, open.config.level), (&own.exposure, own.level));
    assert_eq!(open.config.agent, own.agent);
    assert_eq!(open.config.driver, Driver::Model);
}

// S2-T15, S2-T16: what does not fit is refused, and only direct children are looked after.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t15_s2_t16_what_is_no_work_and_what_is_no_child_is_refused() {
    let place = Place::new();
    let node = place.store().start(place.builder(Classifier::Known).model(greeter()));
    let (parent, other) = (node.session_with(config()).await, node.session_with(config()).await);
    let (child, _) = delegated(&node, parent).await;
    for bad in [json!({}), json!({ "message": "" }), json!({ "message": "a", "more": 1 })] {
        called(&node, parent, "session_delegate", bad).await.unwrap_err();
    }
    let untitled = json!({ "message": "a", "successCriteria": ["b"] });
    let refused = called(&node, parent, "session_delegate", untitled).await.unwrap_err();
    assert!(refused.contains("`title`"), "{refused}");
    for of in [other, parent] {
        let of_other = json!({ "sessionId": if of == parent { other } else { child } });
        let refused = called(&node, of, "session_run_child", of_other).await.unwrap_err();
        assert!(refused.contains("`session_list_children`"), "{refused}");
    }
    let never = json!({ "sessionId": child, "maxCycles": 0 });
    called(&node, parent, "session_run_child", never).await.unwrap_err();
}

// S2-T15: the process dies, and the child goes on in the next one.
#[test]
fn s2_t15_a_child_on_its_own_outlives_the_process() {
    let place = Place::new();
    let life = || place.builder(Classifier::Known);
    let (parent, child) = place.store().live(life().model(greeter()), async |node| {
        let parent = node.session_with(config()).await;
        let (child, _) = delegated(&node, parent).await;
        waiting(&node, parent).await;
        (parent, child)
    });
    let rest = QueuedModel::new().says("it said hi");
    place.store().live(life().model(rest), async |node| {
        let pending = waiting(&node, parent).await;
        assert_eq!(pending.session, child);
        approve(&node, &pending).await;
        let run = json!({ "sessionId": child });
        while called(&node, parent, "session_run_child", run.clone()).await.unwrap()["response"]
            != "it said hi"
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

/// Says something each time that it is let.
#[derive(Clone)]
struct Let(Arc<Semaphore>);

impl Model for Let {
    fn answer(&self, request: ModelRequest) -> ToolFuture<'_, Result<ModelAnswer, ModelError>> {
        Box::pin(async move {
            self.0.acquire().await.unwrap().forget();
            let content = vec![ContentBlock::Text { text: format!("answer {}", request.turn) }];
            Ok(ModelAnswer { content, ..ModelAnswer::default() })
        })
    }
}

// S2-T16, S2-41: a child is looked after for a few runs, and no longer.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t16_s2_41_a_child_is_waited_for_as_many_runs_as_said() {
    let place = Place::new();
    let model = Let(Arc::new(Semaphore::new(0)));
    let node = place.store().start(place.builder(Classifier::Known).model(model.clone()));
    let parent = node.session_with(config()).await;
    let (child, answer) = delegated(&node, parent).await;
    let more = vec![ContentBlock::Text { text: "and more".to_owned() }];
    node.haft().say(child, user("ann"), more).await.unwrap();
    let run = json!({ "sessionId": child, "maxCycles": 1 });
    let watching = called(&node, parent, "session_run_child", run.clone());
    let (watched, ()) = tokio::join!(watching, async {
        // Runs count from when the call was started; the first call gave the work away.
        let n_started = async || {
            let names = node.record(parent).await.names();
            names.into_iter().filter(|name| *name == "call.started").count()
        };
        while n_started().await < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        model.0.add_permits(1);
    });
    let watched = watched.unwrap();
    assert_eq!(
        (&watched["loopStopReason"], &watched["executedCycles"]),
        (&json!("max_cycles"), &json!(1))
    );
    assert_eq!(watched["response"], "answer 1");
    assert_eq!(watched["processedEventIds"], json!([answer["seededEventIds"][1]]));
    model.0.add_permits(1);
    let rested =
        called(&node, parent, "session_run_child", json!({ "sessionId": child })).await.unwrap();
    assert_eq!(
        (&rested["loopStopReason"], &rested["response"]),
        (&json!("idle"), &json!("answer 2"))
    );
}
