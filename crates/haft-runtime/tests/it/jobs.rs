//! Jobs: panics, time limits, stopping, and a node that goes away in order.

use std::sync::Arc;
use std::time::Duration;

use crate::node::{Node, ann, charge, tool};
use haft_core::session::{CallCancelled, Driver, Input};
use haft_core::tool::{InterruptBehavior, Mutates};
use haft_core::{CallId, CallResult, ErrorClass, Failure, Millis, SessionId};
use haft_runtime::InputError;
use haft_store::Store;

async fn failure(node: &Node, session: SessionId, call: CallId) -> Failure {
    match node.outcome(session, call).await.result {
        CallResult::Err(failure) => failure,
        CallResult::Ok(output) => panic!("expected a failure, found {output:?}"),
    }
}

// S1-21, S3-14, D20: a panic is the call's failure and nobody else's.
#[tokio::test]
async fn d20_a_panic_ends_the_call_and_not_the_session() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::fresh(directory.path());
    let session = node.open(Driver::Caller).await;
    let look = tool("panic", |definition| definition.facets.mutates = Some(Mutates::None));
    let call = node.propose(session, &look).await;
    let failure = failure(&node, session, call).await;
    assert_eq!(
        (failure.class, failure.message.as_str()),
        (ErrorClass::Internal, "the tool panicked")
    );
    let next = node.propose(session, &tool("look", |_| {})).await;
    assert!(node.outcome(session, next).await.is_ok());
}

// S1-10, D24: the tool's own time limit, and the truth about a tool that would not stop.
#[tokio::test]
async fn s1_10_a_tool_that_runs_out_of_time_is_stopped_or_said_not_to_have_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::fresh(directory.path());
    let session = node.open(Driver::Caller).await;
    let quick = |name: &str| {
        tool(name, |definition| {
            definition.exec_timeout = Millis(30);
            definition.facets.mutates = Some(Mutates::None);
        })
    };
    let call = node.propose(session, &quick("stoppable")).await;
    let stopped = failure(&node, session, call).await;
    assert_eq!(stopped.class, ErrorClass::Timeout);
    assert_eq!(stopped.message, "its time was up (30ms) before it did anything");
    let call = node.propose(session, &quick("hang")).await;
    let hung = failure(&node, session, call).await;
    assert!(hung.message.contains("it may still be running"), "{}", hung.message);
    assert_eq!(node.world.effects(call), 2, "what only looks is tried once more");
}

#[tokio::test]
async fn a_cancelled_call_reports_whether_it_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::fresh(directory.path());
    let session = node.open(Driver::Caller).await;
    for (name, message) in [("stoppable", "stopped as asked"), ("hang", "may still be running")] {
        let cancellable = tool(name, |definition| {
            definition.interrupt = InterruptBehavior::Cancel;
            definition.facets.mutates = Some(Mutates::None);
        });
        let call = node.propose(session, &cancellable).await;
        let cancelled = CallCancelled { call, by: ann(), note: None };
        node.driver.input(session, Input::CallCancelled(cancelled)).await.unwrap();
        let failure = failure(&node, session, call).await;
        assert_eq!(failure.class, ErrorClass::Cancelled);
        assert!(failure.message.contains(message), "{}", failure.message);
    }
}

#[tokio::test]
async fn a_node_that_shuts_down_finishes_what_runs_and_takes_nothing_more() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::fresh(directory.path());
    let session = node.open(Driver::Caller).await;
    let call = node.propose(session, &tool("look", |_| {})).await;
    node.driver.shutdown(Duration::from_secs(30)).await;
    assert_eq!(node.driver.n_at_work(), 0);
    assert!(node.outcome(session, call).await.is_ok());
    let refused = node.driver.input(session, Input::Woken).await;
    assert!(matches!(refused, Err(InputError::ShuttingDown)), "{refused:?}");
}

#[tokio::test]
async fn a_session_at_rest_stays_for_the_next_call_and_one_that_waits_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open_sqlite(directory.path()).unwrap();
    let node = Node::with(store, &Arc::default(), |settings| {
        settings.linger = Duration::from_secs(3600);
    });
    let parked = node.open(Driver::Caller).await;
    node.propose(parked, &charge()).await;
    node.at_rest().await;
    let (session, look) = (node.open(Driver::Caller).await, tool("look", |_| {}));
    let epoch = async || node.driver.store().load(session).await.unwrap().unwrap().epoch;
    let first = node.propose(session, &look).await;
    assert!(node.outcome(session, first).await.is_ok());
    let taken_over = epoch().await;
    let second = node.propose(session, &look).await;
    assert!(node.outcome(session, second).await.is_ok());
    assert_eq!(epoch().await, taken_over, "it was not taken over anew");
    node.driver.shutdown(Duration::from_secs(3600)).await;
    assert_eq!(node.driver.n_at_work(), 0, "it does not hold up a node that goes away");
}
