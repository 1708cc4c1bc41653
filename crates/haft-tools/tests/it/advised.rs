//! What a model is told before it is asked, and what it tells of what it was shown.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft_core::session::{Activity, Agent, Config, ContextUse, Driver, Goal, GoalSet, Input};
use haft_core::{ContentBlock, ProviderCallId, SessionId};
use haft_runtime::testing::{TestNode, object, user};
use haft_runtime::{Answer, AskedCall, Model, ModelAnswer, ModelError, ModelRequest, ToolFuture};
use haft_tools::Classifier;
use serde_json::{Value, json};

use crate::place::{PATIENCE, Place, result};

/// Answers from a script, and keeps what it was told beside the log.
#[derive(Clone, Default)]
struct Listening {
    answers: Arc<Mutex<VecDeque<ModelAnswer>>>,
    told: Arc<Mutex<Vec<Vec<String>>>>,
}

impl Listening {
    fn says(&self, said: &str) {
        let content = vec![ContentBlock::Text { text: said.to_owned() }];
        let answer = ModelAnswer { content, ..ModelAnswer::default() };
        self.answers.lock().unwrap().push_back(answer);
    }

    fn calls(&self, tool: &str, arguments: &Value, context: Option<ContextUse>) {
        let provider_id = ProviderCallId::new("call_1").unwrap();
        let call =
            AskedCall { provider_id, name: tool.to_owned(), arguments: arguments.to_string() };
        let answer = ModelAnswer { calls: vec![call], context, ..ModelAnswer::default() };
        self.answers.lock().unwrap().push_back(answer);
    }

    /// What it was told the last time.
    fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().last().unwrap().clone()
    }

    fn heard(&self, kind: &str) -> Option<String> {
        self.told().into_iter().find(|note| note.starts_with(&format!("[{kind}]")))
    }
}

impl Model for Listening {
    fn answer(&self, request: ModelRequest) -> ToolFuture<'_, Result<ModelAnswer, ModelError>> {
        self.told.lock().unwrap().push(request.notes);
        let answer = self.answers.lock().unwrap().pop_front().unwrap_or_default();
        Box::pin(async move { Ok(answer) })
    }
}

fn config(driver: Driver) -> Config {
    let agent = Some(Agent {
        id: "ada".to_owned(),
        version: 1,
        model: "scripted".to_owned(),
        instructions: None,
        environment: None,
    });
    Config { driver, agent, ..Config::default() }
}

struct Stage {
    place: Place,
    node: TestNode,
    model: Listening,
}

impl Stage {
    fn new() -> Self {
        let (place, model) = (Place::new(), Listening::default());
        let node = place.store().start(place.builder(Classifier::Known).model(model.clone()));
        Self { place, node, model }
    }

    async fn session(&self) -> SessionId {
        self.node.session_with(config(Driver::Model)).await
    }

    async fn aim(&self, session: SessionId, title: &str, criterion: &str) {
        let goal = Goal::new(title, None, [criterion]).unwrap();
        let set = Input::GoalSet(GoalSet { goal, by: user("ann") });
        self.node.haft().driver().input(session, set).await.unwrap();
    }

    /// Says something, and waits until the session rests.
    async fn say(&self, session: SessionId, said: &str) {
        let content = vec![ContentBlock::Text { text: said.to_owned() }];
        self.node.haft().say(session, user("ann"), content).await.unwrap();
        let began = std::time::Instant::now();
        while began.elapsed() < PATIENCE {
            let loaded = self.node.haft().store().load(session).await.unwrap().unwrap();
            let open = loaded.state.as_open().unwrap();
            if open.activity == Activity::Idle && open.inbox.is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it does not rest");
    }

    async fn call(&self, session: SessionId, tool: &str, arguments: Value) -> Value {
        match self.node.haft().call(session, tool, object(arguments)).await.unwrap() {
            Answer::Done(outcome) => result(&outcome).unwrap(),
            other => panic!("{tool} waits: {other:?}"),
        }
    }
}

// S2-52: what is missing is said, with the tool that helps; in the middle of the work nothing is.
#[tokio::test(flavor = "multi_thread")]
async fn s2_52_a_model_is_told_how_it_stands_with_its_outcome() {
    let stage = Stage::new();
    let session = stage.session().await;
    stage.say(session, "hello").await;
    let repair = stage.model.heard("outcome-repair").unwrap();
    assert!(repair.contains("missing_outcome") && repair.contains("nextTool=outcome_define"));
    assert!(stage.model.heard("promotion-gate").is_none(), "there is nothing to pass");

    stage.aim(session, "the release", "the release is out for everyone").await;
    stage.model.says("I begin.");
    stage.say(session, "go").await;
    assert!(stage.model.heard("outcome-repair").is_none(), "{:?}", stage.model.told());
    let gate = stage.model.heard("promotion-gate").unwrap();
    assert!(gate.contains("not_ready") && gate.contains("nextTool="), "{gate}");
    assert!(stage.model.heard("outcome-trend").is_none(), "nothing has moved yet");

    for _ in 0..2 {
        stage.model.says("Still at it.");
        stage.say(session, "go on").await;
    }
    let trend = stage.model.heard("outcome-trend").unwrap();
    assert!(trend.contains("stable") && trend.contains("nextTool=outcome_history"), "{trend}");

    stage.place.put("news.txt", "the release is out for everyone\n");
    stage.model.calls("read", &json!({ "path": "/workspace/news.txt" }), None);
    stage.model.says("It is out.");
    stage.say(session, "look").await;
    stage.say(session, "and now?").await;
    let done = stage.model.heard("outcome-repair").unwrap();
    assert!(done.contains("done_candidate") && done.contains("nextTool=session_get_trace"));
    assert!(stage.model.heard("promotion-gate").is_none(), "{:?}", stage.model.told());
}

// S2-52: who has none of the tools is told nothing.
#[tokio::test(flavor = "multi_thread")]
async fn s2_52_a_model_without_the_tools_is_told_nothing() {
    let stage = Stage::new();
    let mut config = config(Driver::Model);
    config.exposure.allow = Some(["read".parse().unwrap()].into());
    let session = stage.node.session_with(config).await;
    stage.say(session, "hello").await;
    assert!(stage.model.told().is_empty());
}

// S2-62, S2-63: what others did about the same is recalled by what is wanted and by how it
// stands, and is a hint that names where to read.
#[tokio::test(flavor = "multi_thread")]
async fn s2_62_s2_63_recall_asks_by_grade_and_posture_too() {
    let stage = Stage::new();
    let earlier = stage.session().await;
    stage.aim(earlier, "tame the zebrafish", "zebrafish tamed").await;
    stage.model.says("I feed it.");
    stage.say(earlier, "go").await;
    let unrelated = stage.session().await;
    stage.model.says("Fine weather.");
    stage.say(unrelated, "hello").await;

    let session = stage.session().await;
    stage.say(session, "hm").await;
    assert!(stage.model.heard("retrieval-candidate").is_none(), "nothing is wanted yet");
    stage.aim(session, "move the piano", "piano upstairs").await;
    stage.model.says("I lift it.");
    stage.say(session, "hm").await;
    // Neither the message nor the goal is the other's: only that both are not ready.
    let found = stage.model.heard("retrieval-candidate").unwrap();
    assert!(found.contains("not_ready") && found.contains(&earlier.to_string()), "{found}");
    assert!(stage.model.heard("retrieval-plan").unwrap().contains("nextTool="));
    let told = stage.model.told();
    assert!(told.iter().filter(|note| note.starts_with("[retrieval-candidate]")).count() <= 3);
}

// S2-T10, S2-43, S2-69: the budget is the one by which the model was asked, here and elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t10_s2_43_s2_69_the_budget_is_the_one_that_the_model_was_asked_by() {
    let stage = Stage::new();
    let session = stage.session().await;
    let used =
        ContextUse { budget: 1000, history: 700, tools: 90, shown: 5, left_out: 2, estimate: 0 };
    stage.model.calls("read", &json!({ "path": "/workspace/a.txt" }), Some(used));
    stage.model.says("Read.");
    stage.say(session, "read").await;
    let reader = stage.node.session_with(config(Driver::Caller)).await;
    let asked = json!({ "sessionId": session });
    let told = stage.call(reader, "session_describe_context", asked).await;
    assert_eq!(told["available"], true);
    let budget = &told["contextBudget"];
    assert_eq!(budget["contextSelectionBudgetTokens"], 1000);
    assert_eq!(budget["estimatedTotalRuntimeTokens"], 790);
    assert_eq!(budget["selectionHeadroomTokens"], 300);
    assert_eq!(
        (&budget["history"]["total"], &budget["history"]["dropped"]),
        (&json!(7), &json!(2))
    );
    assert_eq!(told["pressure"]["level"], "high");
    let helpful = ["retrieval_search", "session_search_context", "session_get_snapshot"];
    assert_eq!(told["pressure"]["recommendedTools"], json!(helpful));

    stage.model.calls("shell_describe", &json!({}), Some(used));
    stage.model.says("Seen.");
    stage.say(session, "and the shell?").await;
    let last = json!({ "sessionId": session, "types": ["agent.tool_use"], "limit": 1 });
    let last = stage.call(reader, "session_get_events", last).await;
    let output: Value =
        serde_json::from_str(last["events"][0]["output"].as_str().unwrap()).unwrap();
    assert_eq!(
        output["contextPressure"]["reasons"],
        json!(["low_headroom", "dropped_conversation"])
    );
}
