//! A real small model on this machine, when one is served: `HAFT_E2E_LLM=http://127.0.0.1:PORT/v1`.
//!
//! Small models choose badly, so what is proven is what must hold whatever they choose: nothing
//! runs that was not approved, every call has its result, and the run ends.

#![expect(clippy::print_stdout, reason = "what a model chose is worth a look")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use haft_agent::provider::{Api, ProviderConfig, Timeouts};
use haft_agent::{CallStyle, ModelConfig, ProviderModel};
use haft_core::SessionId;
use haft_core::session::{Config, Event, Limits};
use haft_runtime::testing::TestNode;
use haft_runtime::{Haft, Response};
use serde_json::json;

use crate::sessions::{asks, say, weather};

fn served(calls: CallStyle) -> Option<ProviderModel> {
    let Ok(url) = std::env::var("HAFT_E2E_LLM") else {
        println!("left out: HAFT_E2E_LLM names no model that is served here");
        return None;
    };
    let mut provider = ProviderConfig::new(Api::OpenAiChat, url);
    let limit = Duration::from_secs(300);
    provider.timeouts = Timeouts { connect: limit, first_byte: limit, idle: limit, total: limit };
    let mut config = ModelConfig::new(provider, "local");
    config.calls = calls;
    config.output_tokens_max = Some(256);
    let steady = json!({"temperature": 0, "seed": 1, "cache_prompt": false});
    config.extra = steady.as_object().cloned().unwrap_or_default();
    if calls == CallStyle::Native {
        config.extra.insert("stop".into(), json!(["\n"]));
    }
    Some(ProviderModel::new(config).unwrap())
}

/// Approves whatever is asked until the run is over, and returns how much was approved.
async fn approve_all(node: &TestNode, session: SessionId) -> usize {
    let mut approved = 0;
    for _ in 0..3000 {
        for pending in node.haft().waits_below(session).await.unwrap() {
            let yes = Response::Approve { arguments: None, note: None, grant: None };
            let by = haft_runtime::testing::user("ann");
            node.haft().resolve(session, pending.call, by, yes).await.unwrap();
            approved += 1;
        }
        let record = node.record(session).await;
        if record.events().iter().any(|event| matches!(event, Event::TurnEnded { .. })) {
            return approved;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the run does not end: {:?}", node.record(session).await.names());
}

/// Returns how many calls were approved, and the last that the model said.
async fn asked_for_weather(calls: CallStyle) -> Option<(usize, String)> {
    let model = served(calls)?;
    let n_runs = Arc::new(AtomicU32::new(0));
    let node = TestNode::start(Haft::builder().tool(weather(&n_runs, asks)).model(model));
    let limits = Limits { turns_per_run: 3, ..Limits::default() };
    let session = node.session_with(Config { limits, ..Config::default() }).await;
    say(&node, session, "What is the weather in Paris?").await;
    let approved = approve_all(&node, session).await;
    let record = node.record(session).await;
    record.assert_paired();
    assert_eq!(n_runs.load(Ordering::SeqCst) as usize, approved, "{:?}", record.names());
    let is_envelope = |event: &Event| match event {
        Event::TurnAnswered { content, .. } => {
            content.iter().filter_map(|block| block.as_text()).any(|text| text.starts_with('{'))
        }
        _ => false,
    };
    assert!(!record.events().iter().any(is_envelope), "the server kept to the schema");
    println!("{calls:?}: {approved} approved; {:?}", record.names());
    let said = |event: &Event| match event {
        Event::TurnAnswered { content, .. } => {
            Some(content.iter().filter_map(|block| block.as_text()).collect::<String>())
        }
        _ => None,
    };
    Some((approved, record.events().iter().rev().find_map(said).unwrap_or_default()))
}

#[tokio::test]
async fn a_real_model_runs_only_what_was_approved_by_its_own_calls() {
    asked_for_weather(CallStyle::Native).await;
}

#[tokio::test]
async fn a_real_model_that_knows_no_tools_calls_them_by_schema() {
    let Some((approved, said)) = asked_for_weather(CallStyle::Constrained).await else { return };
    assert!(approved >= 1, "the schema makes it call");
    println!("it said: {said}");
}
