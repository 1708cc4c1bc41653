//! Sub-agents and proactive work on a real node, through crashes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use haft_agent::{AgentSpec, ChoiceError, ModelName, Models, Providers, Script};
use haft_core::session::{Event, TurnEnding};
use haft_core::{CallResult, Millis, SessionId};
use haft_runtime::testing::{TestNode, TestPlace, user};
use haft_runtime::{Haft, HaftBuilder, Response};
use haft_store::Pending;

use crate::sessions::{PATIENCE, asks, ending, eventually, say, weather};

fn script(toml: &str) -> Script {
    Script::from_toml(toml).unwrap()
}

fn name(text: &str) -> ModelName {
    text.parse().unwrap()
}

/// A boss that gives the weather to a scout, whose tool asks.
fn boss() -> AgentSpec {
    let mut scout = AgentSpec::new("scout", name("scripted/scout")).unwrap();
    scout.tools = Some(["get_weather".parse().unwrap()].into());
    let mut boss = AgentSpec::new("boss", name("scripted/boss")).unwrap();
    boss.sub_agents = vec![scout];
    boss
}

fn builder(n_runs: &Arc<AtomicU32>) -> HaftBuilder {
    let boss_says = script(
        r#"
        [[turns]]
        calls = [{ tool = "scout", arguments = { task = "the weather in Rome" } }]
        [[turns]]
        expect = "It rains in Rome"
        say = "Take an umbrella."
        "#,
    );
    let scout_says = script(
        r#"
        [[turns]]
        expect = "the weather in Rome"
        calls = [{ tool = "get_weather", arguments = { city = "Rome" } }]
        [[turns]]
        expect = "rain in Rome"
        say = "It rains in Rome."
        "#,
    );
    let scripts = [("boss".to_owned(), boss_says), ("scout".to_owned(), scout_says)].into();
    let models = Models::new(Providers { scripts, ..Providers::default() });
    let tools = boss().delegation_tools();
    Haft::builder().tool(weather(n_runs, asks)).tools(tools).model(models)
}

async fn asked(node: &TestNode) -> SessionId {
    let session = node.session_with(boss().config()).await;
    say(node, session, "What shall I wear in Rome?").await;
    session
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
    panic!("nothing waits: {:?}", node.record(session).await.names());
}

async fn approve(node: &TestNode, pending: &Pending) {
    let yes = Response::Approve { arguments: None, note: None, grant: None };
    node.haft().resolve(pending.session, pending.call, user("ann"), yes).await.unwrap();
}

async fn results(node: &TestNode, session: SessionId) -> Vec<CallResult> {
    let record = node.record(session).await;
    let results = record.events().iter().filter_map(|event| match event {
        Event::CallFinished { outcome } => Some(outcome.result.clone()),
        _ => None,
    });
    results.collect()
}

// D3, S2-41, S3-37, S4-35: the child works in a session of its own, its approval is found at the top,
// and its last word is the result of the parent's call.
#[tokio::test]
async fn s2_41_a_sub_agents_approval_is_found_at_the_top_and_its_word_is_the_result() {
    let n_runs = Arc::new(AtomicU32::new(0));
    let node = TestNode::start(builder(&n_runs));
    let session = asked(&node).await;
    let pending = waiting(&node, session).await;
    assert_ne!(pending.session, session);
    assert_eq!(node.haft().root(pending.session).await.unwrap(), session);
    assert_eq!(n_runs.load(Ordering::SeqCst), 0);
    approve(&node, &pending).await;
    assert_eq!(ending(&node, session, 2).await, TurnEnding::Completed);
    assert_eq!(n_runs.load(Ordering::SeqCst), 1);
    let told = |events: &[Event]| {
        events.iter().any(|event| matches!(event, Event::ParentTold { .. })).then_some(())
    };
    eventually(&node, pending.session, told).await;
    node.record(session).await.assert_paired();
    node.record(pending.session).await.assert_paired();
}

// The process dies while the child waits, and the next one records the approval while it goes away
// and begins nothing: begun and cut short, the call would be in doubt. Whatever is redone, the tool
// ran once and the parent heard once.
#[test]
fn a_sub_agent_survives_crashes_and_its_word_is_delivered_once() {
    let n_runs = Arc::new(AtomicU32::new(0));
    let place = TestPlace::new();
    let (session, pending) = place.live(builder(&n_runs), async |node| {
        let session = asked(&node).await;
        (session, waiting(&node, session).await)
    });
    place.advance(Millis::from_secs(60));
    place.live(builder(&n_runs), async |node| {
        node.haft().shutdown(Duration::ZERO).await;
        approve(&node, &pending).await;
    });
    place.advance(Millis::from_secs(60));
    place.live(builder(&n_runs), async |node| {
        assert_eq!(ending(&node, session, 2).await, TurnEnding::Completed);
        let results = results(&node, session).await;
        assert_eq!(results.len(), 1, "{results:?}");
        assert!(matches!(&results[0], CallResult::Ok(output)
            if format!("{output:?}").contains("It rains in Rome")));
    });
    assert_eq!(n_runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn whoever_interrupts_the_parent_interrupts_the_child() {
    let n_runs = Arc::new(AtomicU32::new(0));
    let node = TestNode::start(builder(&n_runs));
    let session = asked(&node).await;
    let pending = waiting(&node, session).await;
    node.haft().interrupt(session, user("ann"), None).await.unwrap();
    assert_eq!(ending(&node, pending.session, 1).await, TurnEnding::Interrupted);
    let stopped = |events: &[Event]| {
        events.iter().any(|event| matches!(event, Event::ChildStopped { .. })).then_some(())
    };
    eventually(&node, session, stopped).await;
    assert!(node.haft().waits_below(session).await.unwrap().is_empty());
    assert_eq!(n_runs.load(Ordering::SeqCst), 0);
}

// S2-6: the store keeps the time of a wake, so that a session goes on by itself also when nobody
// was alive in between.
#[test]
fn s2_6_a_session_wakes_by_itself_after_its_process_died() {
    let watcher = || {
        let says = script(
            r#"
            [[turns]]
            say = "Later. <loop_directive>{\"outcome\":\"sleep\",\"queuedWakes\":[{\"reason\":\"look at the build\",\"delaySeconds\":600}]}</loop_directive>"
            [[turns]]
            expect = "look at the build"
            say = "It is green."
            "#,
        );
        let scripts = [("watch".to_owned(), says)].into();
        let models = Models::new(Providers { scripts, ..Providers::default() });
        Haft::builder().model(models.default_model(name("scripted/watch")))
    };
    let place = TestPlace::new();
    let session = place.live(watcher(), async |node| {
        let session = node.session_with(haft_core::session::Config::default()).await;
        say(&node, session, "Tell me when the build is green.").await;
        assert_eq!(ending(&node, session, 1).await, TurnEnding::Completed);
        session
    });
    place.advance(Millis::from_secs(601));
    place.live(watcher(), async |node| {
        assert_eq!(ending(&node, session, 2).await, TurnEnding::Completed);
    });
}

#[test]
fn a_model_is_chosen_by_its_name_and_a_missing_one_says_what_to_do() {
    let models = Models::new(Providers::default());
    let chosen = |text: &str| models.model(&name(text)).err().unwrap();
    assert!(matches!(chosen("claude-x"), ChoiceError::NoProvider { .. }));
    assert!(chosen("gpt-5").to_string().contains("`openai/…`"));
    assert!(matches!(chosen("scripted/demo"), ChoiceError::NoScript { .. }));
}
