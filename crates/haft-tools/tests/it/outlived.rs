//! What a session's commands leave running, as the host's process table shows it.

use std::time::Instant;

use haft_core::SessionId;
use haft_core::permission::{Exposure, Level};
use haft_core::session::{Config, Driver};
use haft_runtime::Answer;
use haft_runtime::testing::{TestNode, object, user};
use haft_tools::{Hands, agent_toolset};
use serde_json::json;

use crate::place::{PATIENCE, Place};

/// Whether a process with this argument runs anywhere on the machine.
fn runs(argument: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let commands = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    commands.into_iter().any(|command| {
        let mut words = command.split(|byte| *byte == 0);
        words.next().is_some_and(|name| name.ends_with(b"sleep"))
            && words.any(|word| word == argument.as_bytes())
    })
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// A number of seconds that no other process sleeps for.
fn unlikely(n: u32) -> String {
    format!("{}.{n}", 100_000 + std::process::id())
}

async fn agent(node: &TestNode) -> SessionId {
    let allow = agent_toolset().into_iter().map(|definition| definition.name).collect();
    let exposure = Exposure { allow: Some(allow), ..Exposure::default() };
    let level = Level::Autonomous;
    let config = Config { driver: Driver::Caller, exposure, level, ..Config::default() };
    node.session_with(config).await
}

async fn bash(node: &TestNode, session: SessionId, arguments: serde_json::Value) {
    let answer = node.haft().call(session, "agent_bash", object(arguments)).await.unwrap();
    assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
}

// W5: a command's time is its background's time too; what an earlier command left stays.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_command_left_running_ends_when_its_time_is_up() {
    let place = Place::new();
    let node = place.node().node;
    let session = agent(&node).await;
    let (earlier, left, waited) = (unlikely(1), unlikely(2), unlikely(3));
    bash(&node, session, json!({ "command": format!("sleep {earlier} & echo begun") })).await;
    until("it runs", || runs(&earlier)).await;
    let command = format!("(setsid sleep {left} &) ; sleep {left} & sleep {waited}");
    bash(&node, session, json!({ "command": command, "timeout_ms": 700 })).await;
    until("it is gone with its time", || !runs(&left) && !runs(&waited)).await;
    assert!(runs(&earlier), "an earlier command's is not its own");
    bash(&node, session, json!({ "command": "true" })).await;
}

// W5: an interrupt ends what the session runs, and the session goes on.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_session_left_running_ends_with_an_interrupt() {
    let place = Place::new();
    let node = place.node().node;
    let session = agent(&node).await;
    let left = unlikely(4);
    let command = format!("cd sub && export KEPT=yes && sleep {left} & cd sub");
    bash(&node, session, json!({ "command": command })).await;
    until("it runs", || runs(&left)).await;
    node.haft().interrupt(session, user("ann"), None).await.unwrap();
    until("it is gone", || !runs(&left)).await;
    let told = object(json!({ "command": "pwd" }));
    let answer = node.haft().call(session, "agent_bash", told).await.unwrap();
    let Answer::Done(outcome) = answer else { panic!("{answer:?}") };
    let said = format!("{outcome:?}");
    assert!(said.contains("/workspace/sub") && said.contains("interrupted"), "{said}");
}

// W5: a session that ends, as one does that is deleted, takes its processes along.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_session_left_running_ends_with_the_session() {
    let place = Place::new();
    let node = place.node().node;
    let session = agent(&node).await;
    let left = unlikely(5);
    bash(&node, session, json!({ "command": format!("sleep {left} & true") })).await;
    until("it runs", || runs(&left)).await;
    node.haft().end(session, user("ann"), None).await.unwrap();
    until("it is gone", || !runs(&left)).await;
}

// W5: whoever archives a session has its hands let go.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_session_left_running_ends_when_its_hands_let_go() {
    let place = Place::new();
    let node = place.node().node;
    let session = agent(&node).await;
    let left = unlikely(6);
    bash(&node, session, json!({ "command": format!("sleep {left} & true") })).await;
    until("it runs", || runs(&left)).await;
    node.haft().service::<Hands>().unwrap().close(session);
    until("it is gone", || !runs(&left)).await;
}
