//! What a model is shown over a long session: summaries, signed reasoning, limits, live text.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use haft_agent::provider::Api;
use haft_agent::transcript::Budget;
use haft_agent::{ModelConfig, Overflow, ProviderModel};
use haft_core::session::{Config, Counted, Event, Limits, TurnEnding};
use haft_runtime::testing::TestNode;
use haft_runtime::{Adviser, Haft, Live, ModelRequest, ToolContext, ToolFuture};
use serde_json::Value;

use crate::fake::{CHAT, Fake, Scene};
use crate::sessions::{chat_text, ending, model, say, started_with, weather};

const LONG: &str = "a long story about the sea and the ships that sail upon it, told slowly. ";

/// Of four questions and their answers, three fit into so many tokens.
const ROOM: usize = 900;

/// Says so much in every answer that the fourth question does not fit any more.
async fn told(fake: &Fake, overflow: Overflow) -> (TestNode, haft_core::SessionId) {
    told_within(ROOM, fake, overflow).await
}

async fn told_within(
    tokens: usize,
    fake: &Fake,
    overflow: Overflow,
) -> (TestNode, haft_core::SessionId) {
    let mut config = ModelConfig::new(fake.config(Api::OpenAiChat), "m");
    config.budget = Budget { tokens };
    config.overflow = overflow;
    let model = ProviderModel::new(config).unwrap();
    let node = TestNode::start(Haft::builder().model(model));
    let session = node.session_with(Config::default()).await;
    for turn in 1..=4 {
        say(&node, session, &format!("question {turn}")).await;
        assert_eq!(ending(&node, session, turn).await, TurnEnding::Completed);
    }
    (node, session)
}

fn story() -> Scene {
    Scene::stream(chat_text(&LONG.repeat(20)))
}

/// The same from a provider that counts many more tokens than are estimated.
fn counted_story() -> Scene {
    let usage =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":90000,\"completion_tokens\":9}}\n\n";
    let text = chat_text(&LONG.repeat(20));
    Scene::stream(text.replace("data: [DONE]", &format!("{usage}data: [DONE]")))
}

fn shown(request: &Value) -> String {
    request["messages"].to_string()
}

#[tokio::test]
async fn what_does_not_fit_is_put_into_words_by_the_model_and_recorded() {
    let summary = Scene::stream(chat_text("They spoke of ships."));
    let fake = Fake::start([story(), story(), story(), summary, story()]).await;
    let (node, session) = told(&fake, Overflow::Summarise).await;
    let requests = fake.requests();
    assert_eq!(requests.len(), 5);
    let asked = &requests[3].body;
    assert!(asked.get("tools").is_none());
    assert!(shown(asked).contains("question 1") && shown(asked).contains("[summarise"));
    let last = shown(&requests[4].body);
    assert!(last.contains("They spoke of ships.") && last.contains("question 4"), "{last}");
    assert!(!last.contains("question 1") && !last.contains("left out"), "{last}");
    let record = node.record(session).await;
    let summary = record.events().iter().find_map(|event| match event {
        Event::ContextSummarised { summary } => Some(summary.clone()),
        _ => None,
    });
    let summary = summary.unwrap();
    assert_eq!(summary.text, "They spoke of ships.");
    assert_eq!(summary.usage.unwrap().counted, Counted::Haft, "this provider does not count");
    // Another process is shown the same, from the summary on.
    let loaded = node.haft().store().load(session).await.unwrap().unwrap();
    assert_eq!(loaded.state.as_open().unwrap().summary.as_ref(), Some(&summary));
}

#[tokio::test]
async fn a_summary_that_fails_is_replaced_by_leaving_out_and_a_word_about_it() {
    let refused = Scene::error(400, "", r#"{"error":{"message":"no"}}"#);
    let fake = Fake::start([story(), story(), story(), refused, story()]).await;
    let (node, session) = told(&fake, Overflow::Summarise).await;
    let last = shown(&fake.requests()[4].body);
    assert!(last.contains("are left out here") && last.contains("[context-pressure]"), "{last}");
    let names = node.record(session).await.names();
    assert!(!names.contains(&"context.summarised"), "{names:?}");
}

/// Tells models what day it is.
struct Calendar;

impl Adviser for Calendar {
    fn notes<'a>(
        &'a self,
        request: &'a ModelRequest,
        _: &'a ToolContext,
    ) -> ToolFuture<'a, Vec<String>> {
        let note = format!("[day] turn {}", request.turn);
        Box::pin(async move { vec![note] })
    }
}

// S2-43, S2-52: notes stand last in what the model reads and nowhere in the log; how much it was
// shown is in the log.
#[tokio::test]
async fn s2_43_s2_52_notes_reach_the_model_and_what_it_was_shown_is_recorded() {
    let fake = Fake::start([story(), story()]).await;
    let mut config = ModelConfig::new(fake.config(Api::OpenAiChat), "m");
    config.budget = Budget { tokens: 5000 };
    let model = ProviderModel::new(config).unwrap();
    let n_runs = Arc::new(AtomicU32::new(0));
    let builder = Haft::builder().tool(weather(&n_runs, |_| {})).adviser(Calendar).model(model);
    let node = TestNode::start(builder);
    let session = node.session_with(Config::default()).await;
    for turn in 1..=2 {
        say(&node, session, "what day is it?").await;
        assert_eq!(ending(&node, session, turn).await, TurnEnding::Completed);
    }
    let second = &fake.requests()[1].body["messages"];
    let last = second.as_array().unwrap().last().unwrap();
    assert_eq!(last["content"], "[day] turn 2");
    assert!(!second.to_string().contains("turn 1"), "a note is for its turn alone");
    let record = node.record(session).await;
    let used = record.events().iter().rev().find_map(|event| match event {
        Event::TurnAnswered { context, .. } => *context,
        _ => None,
    });
    let used = used.unwrap();
    assert_eq!((used.budget, used.shown, used.left_out), (5000, 3, 0));
    assert!(used.history > 200 && used.tools > 10, "{used:?}");
    assert_eq!(used.headroom(), 5000 - used.history);
}

#[tokio::test]
async fn a_provider_that_counts_more_tokens_is_shown_less_and_summarised_sooner() {
    let roomy = 2 * ROOM;
    let fake = Fake::start([story(), story(), story(), story()]).await;
    told_within(roomy, &fake, Overflow::LeaveOut).await;
    assert!(!shown(&fake.requests()[3].body).contains("are left out here"), "all of it fits");
    let fake = Fake::start([1, 2, 3, 4].map(|_| counted_story())).await;
    told_within(roomy, &fake, Overflow::LeaveOut).await;
    assert!(shown(&fake.requests()[3].body).contains("are left out here"));
    let fake = Fake::start([1, 2, 3, 4, 5, 6].map(|_| counted_story())).await;
    let (node, session) = told_within(roomy, &fake, Overflow::Summarise).await;
    assert!(node.record(session).await.names().contains(&"context.summarised"));
}

#[tokio::test]
async fn whoever_wants_no_summary_is_not_charged_for_one() {
    let fake = Fake::start([story(), story(), story(), story()]).await;
    told(&fake, Overflow::LeaveOut).await;
    assert!(shown(&fake.requests()[3].body).contains("are left out here"));
}

const THINKING: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","model":"claude","usage":{"input_tokens":9,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Rome, "}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"so ask."}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQBsig"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"hidden"}}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"get_weather","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"city\":\"Rome\"}"}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":20}}

event: message_stop
data: {"type":"message_stop"}

"#;

fn anthropic_text(text: &str) -> String {
    format!(
        "data: {{\"type\":\"message_start\",\"message\":{{\"id\":\"m\",\"usage\":{{\"input_tokens\":1,\"output_tokens\":1}}}}}}\n\n\
         data: {{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{{\"type\":\"text\",\"text\":\"\"}}}}\n\n\
         data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":{}}}}}\n\n\
         data: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"end_turn\"}}}}\n\n\
         data: {{\"type\":\"message_stop\"}}\n\n",
        Value::from(text)
    )
}

// The API refuses a tool's result whose call has lost its signed reasoning; once the question is
// answered, it wants it no more.
#[tokio::test]
async fn signed_reasoning_goes_back_as_it_came_within_the_work_on_one_question() {
    let n_runs = Arc::new(AtomicU32::new(0));
    let scenes = [
        Scene::stream(THINKING),
        Scene::stream(anthropic_text("It rains.")),
        Scene::stream(anthropic_text("Yes.")),
    ];
    let fake = Fake::start(scenes).await;
    let builder = Haft::builder().tool(weather(&n_runs, |_| {}));
    let model = model(fake.config(Api::AnthropicMessages));
    let (node, session) = started_with(builder, model, Config::default()).await;
    assert_eq!(ending(&node, session, 2).await, TurnEnding::Completed);
    let blocks = &fake.requests()[1].body["messages"][1]["content"];
    assert_eq!(blocks[0]["thinking"], "Rome, so ask.");
    assert_eq!(blocks[0]["signature"], "EqQBsig");
    assert_eq!((&blocks[1]["data"], &blocks[2]["type"]), (&"hidden".into(), &"tool_use".into()));
    say(&node, session, "Sure?").await;
    assert_eq!(ending(&node, session, 3).await, TurnEnding::Completed);
    let third = shown(&fake.requests()[2].body);
    assert!(third.contains("toolu_1") && !third.contains("EqQBsig"), "{third}");
}

// S0-36: what the provider counts is recorded and counts towards the run.
#[tokio::test]
async fn s0_36_the_providers_count_of_tokens_ends_a_run() {
    let n_runs = Arc::new(AtomicU32::new(0));
    let fake = Fake::start([Scene::stream(CHAT), Scene::stream(chat_text("Sorry."))]).await;
    let limits = Limits { tokens_per_run: Some(100), ..Limits::default() };
    let config = Config { limits, ..Config::default() };
    let builder = Haft::builder().tool(weather(&n_runs, |_| {}));
    let model = model(fake.config(Api::OpenAiChat));
    let (node, session) = started_with(builder, model, config).await;
    let limit = TurnEnding::Limit { limit: "tokens_per_run".into() };
    assert_eq!(ending(&node, session, 1).await, limit);
    say(&node, session, "Go on.").await;
    ending(&node, session, 2).await;
    let second = shown(&fake.requests()[1].body);
    assert!(second.contains("`tokens_per_run` was reached"), "the model is told: {second}");
}

#[tokio::test]
async fn what_a_model_says_is_heard_while_it_says_it() {
    let fake = Fake::start([Scene::stream(chat_text("It rains."))]).await;
    let node = TestNode::start(Haft::builder().model(model(fake.config(Api::OpenAiChat))));
    let mut live = node.haft().live().subscribe();
    let session = node.session_with(Config::default()).await;
    say(&node, session, "How is the weather?").await;
    let mut heard = String::new();
    loop {
        match live.recv().await.unwrap() {
            Live::Text { text, turn: 1, .. } => heard.push_str(&text),
            Live::Appended { events, .. }
                if events.iter().any(|event| event.name() == "turn.answered") =>
            {
                break;
            }
            _ => {}
        }
    }
    assert_eq!(heard, "It rains.");
}
