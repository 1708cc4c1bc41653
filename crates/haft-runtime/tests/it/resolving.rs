//! Resolving: durable before it is acknowledged, acknowledged before anything follows, once.

use crate::node::{Node, ann, approve, bob, charge, tool};
use haft_core::session::{Driver, Event, Input, MessageArrived, Refusal, Resolution, Stale};
use haft_core::{MessageId, Millis};
use haft_runtime::{InputError, Live};

// S4-14, S4-19, S4-33, S2-9: a gated call waits in the store with no task, and runs once.
#[tokio::test]
async fn s4_33_a_waiting_session_costs_no_task_and_an_approval_runs_it_once() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::fresh(directory.path());
    let session = node.open(Driver::Caller).await;
    let call = node.propose(session, &charge()).await;
    node.at_rest().await;
    assert_eq!(node.pending().await.len(), 1);
    assert_eq!(node.world.effects(call), 0);
    node.driver.resolve(session, node.resolved(call, ann(), approve())).await.unwrap();
    assert!(node.outcome(session, call).await.is_ok());
    assert_eq!(node.world.effects(call), 1);
    assert!(node.pending().await.is_empty());
    node.at_rest().await;
}

// S4-20, S4-30, D6: fifty double clicks; one winner each, and the loser is told who.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d6_of_two_resolutions_at_the_same_moment_exactly_one_counts() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::fresh(directory.path());
    for _ in 0..50 {
        let session = node.open(Driver::Caller).await;
        let call = node.propose(session, &charge()).await;
        let (yes, no) = (approve(), Resolution::Deny { note: None });
        let (one, two) = tokio::join!(
            node.driver.resolve(session, node.resolved(call, ann(), yes)),
            node.driver.resolve(session, node.resolved(call, bob(), no)),
        );
        let (winner, loser) = if one.is_ok() { (one, two) } else { (two, one) };
        winner.unwrap();
        let Err(InputError::Refused(Refusal::Stale(Stale::Decided { by, .. }))) = loser else {
            panic!("expected to be told who decided, found {loser:?}");
        };
        let ran = node.outcome(session, call).await.is_ok();
        assert_eq!(node.world.effects(call), u32::from(ran));
        assert_eq!(by, if ran { ann() } else { bob() });
    }
}

// S4-20: a call of an earlier turn is stale, with who decided, long after it left the state.
#[tokio::test]
async fn s4_20_a_late_resolver_of_an_earlier_turn_is_told_who_decided() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::fresh(directory.path());
    let session = node.open(Driver::Caller).await;
    let call = node.propose(session, &charge()).await;
    node.driver.resolve(session, node.resolved(call, ann(), approve())).await.unwrap();
    node.outcome(session, call).await;
    let next = node.propose(session, &tool("look", |_| {})).await;
    node.outcome(session, next).await;
    let late = node.driver.resolve(session, node.resolved(call, bob(), approve())).await;
    let Err(InputError::Refused(Refusal::Stale(Stale::Decided { by, .. }))) = late else {
        panic!("expected to be told who decided, found {late:?}");
    };
    assert_eq!(by, ann());
    assert_eq!(node.world.effects(call), 1);
}

// S4-21: the answer does not wait for the model, which here never answers.
#[tokio::test]
async fn s4_21_a_resolver_never_waits_for_the_next_turn() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::fresh(directory.path());
    let session = node.open(Driver::Model).await;
    let message = MessageId::from_bits(1);
    let said = MessageArrived { message, from: ann(), content: vec![] };
    node.driver.input(session, Input::MessageArrived(said)).await.unwrap();
    let waiting = node.eventually(|| async { node.pending().await.into_iter().next() }).await;
    let denial = Resolution::Deny { note: None };
    node.driver.resolve(session, node.resolved(waiting.call, ann(), denial)).await.unwrap();
    node.eventually(|| async {
        let events = node.events(session).await;
        let asked = |event: &Event| matches!(event, Event::TurnStarted { turn: 2, .. });
        events.iter().any(asked).then_some(())
    })
    .await;
}

// S4-24, S4-27, D5: an expiry is the store's and continues the session by itself.
#[tokio::test]
async fn s4_24_an_unanswered_call_expires_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::fresh(directory.path());
    let session = node.open(Driver::Caller).await;
    let call = node.propose(session, &charge()).await;
    node.at_rest().await;
    node.clock.advance(Millis::from_secs(299));
    tokio::task::yield_now().await;
    assert_eq!(node.pending().await.len(), 1, "not before its time");
    node.clock.advance(Millis::from_secs(1));
    let outcome = node.outcome(session, call).await;
    assert!(!outcome.is_ok());
    let late = node.driver.resolve(session, node.resolved(call, ann(), approve())).await;
    assert!(matches!(late, Err(InputError::Refused(Refusal::Stale(_)))), "{late:?}");
}

// Canonical events are told live as they are appended.
#[tokio::test]
async fn whoever_listens_hears_what_is_appended() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::fresh(directory.path());
    let mut live = node.driver.live().subscribe();
    let session = node.open(Driver::Caller).await;
    node.propose(session, &charge()).await;
    let Live::Appended { events, first_seq, .. } = live.recv().await.unwrap() else {
        panic!("expected appended events");
    };
    assert_eq!(first_seq, 2);
    assert!(matches!(events.last(), Some(Event::CallSuspended { .. })));
}

#[tokio::test]
async fn an_unknown_session_is_said_to_be_unknown() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::fresh(directory.path());
    let nobody = haft_core::SessionId::from_bits(404);
    let found = node.driver.input(nobody, Input::Woken).await;
    assert!(matches!(found, Err(InputError::UnknownSession)), "{found:?}");
    let call = haft_core::CallId::from_bits(1);
    let found = node.driver.resolve(nobody, node.resolved(call, ann(), approve())).await;
    assert!(matches!(found, Err(InputError::UnknownSession)), "{found:?}");
}
