//! Nodes that were away for longer than their lease: what they may still do, and what is made of
//! what they did.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::node::{Node, PATIENCE, World, ann, tenant, tool};
use haft_core::session::{Config, Driver as DrivenBy, Input, Opened, State, decide};
use haft_core::{Millis, SessionId, Timestamp};
use haft_runtime::{Boundary, Observer};
use haft_store::{Moment, NewSession, NodeId, Store};

/// Long enough that a busy machine does not lose it by itself.
const TTL: Duration = Duration::from_secs(5);

/// Freezes the whole process once, right before a tool is entered, for longer than its lease.
fn freezes_before_a_tool(meanwhile: impl Fn() + Send + Sync + 'static) -> Observer {
    let frozen = AtomicBool::new(false);
    Observer::new(move |boundary| {
        if boundary == Boundary::JobStarting && !frozen.swap(true, Ordering::SeqCst) {
            std::thread::sleep(TTL * 2);
            meanwhile();
        }
    })
}

fn thief() -> NodeId {
    NodeId::new("thief").unwrap()
}

/// Takes over whatever is owned, from a thread of its own: the test's is frozen.
fn take_everything(store: &Store) {
    let store = store.clone();
    let taking = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let later = Moment::At(Timestamp::from_ms(10_000_000));
            store.heartbeat(&thief(), later, Millis::from_secs(3600)).await.unwrap();
            for session in store.owned_or_orphaned(&thief(), later).await.unwrap() {
                store.acquire(session, &thief(), later).await.unwrap();
            }
        });
    });
    taking.join().unwrap();
}

fn frozen_node(directory: &Path, meanwhile: impl Fn(&Store) + Send + Sync + 'static) -> Node {
    let store = Store::open_sqlite(directory).unwrap();
    let during = store.clone();
    Node::with(store, &Arc::default(), |settings| {
        settings.lease_ttl = TTL;
        settings.observer = freezes_before_a_tool(move || meanwhile(&during));
    })
}

// One thread: while it is frozen nothing of the process goes on, as after SIGSTOP.
#[tokio::test]
async fn a_node_that_lost_a_session_while_frozen_does_not_enter_the_tool() {
    let directory = tempfile::tempdir().unwrap();
    let node = frozen_node(directory.path(), take_everything);
    let session = node.open(DrivenBy::Caller).await;
    let call = node.propose(session, &tool("charge", |_| {})).await;
    node.at_rest().await;
    assert_eq!(node.world.effects(call), 0, "the session is someone else's by now");
    let loaded = node.driver.store().load(session).await.unwrap().unwrap();
    assert_eq!(loaded.owner, Some(thief()));
}

#[tokio::test]
async fn a_node_that_was_frozen_and_lost_nothing_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let node = frozen_node(directory.path(), |_| {});
    let session = node.open(DrivenBy::Caller).await;
    let call = node.propose(session, &tool("charge", |_| {})).await;
    assert!(node.outcome(session, call).await.is_ok());
    assert_eq!(node.world.effects(call), 1);
}

// The node was believed dead and was only slow: a person need not decide what is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_fenced_node_did_settles_the_doubt() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open_sqlite(directory.path()).unwrap();
    let world: Arc<World> = Arc::default();
    let slow = Node::with(store.clone(), &world, |_| {});
    let session = slow.open(DrivenBy::Caller).await;
    let call = slow.propose(session, &tool("waiting", |_| {})).await;
    slow.begun(call).await;
    let next = Node::with(store, &world, |settings| {
        settings.node = NodeId::new("node-2").unwrap();
    });
    next.clock.advance(Millis::from_secs(3600));
    next.driver.wake(session);
    next.eventually(|| async { (!next.pending().await.is_empty()).then_some(()) }).await;
    world.open();
    let outcome = next.outcome(session, call).await;
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!((outcome.attempt, world.effects(call)), (1, 1));
    assert_eq!(next.pending().await, []);
}

async fn orphan(store: &Store, bits: u128) {
    let session = SessionId::from_bits(bits);
    let config = Config { driver: DrivenBy::Caller, ..Config::default() };
    let opened = Input::Opened(Opened { session, config, by: ann() });
    let at = Timestamp::from_ms(1_000);
    let events = decide(&State::Unopened, at, opened).unwrap().events;
    let owner = Some(NodeId::new("dead").unwrap());
    let new = NewSession { session, tenant: tenant(), at, events, owner, request: None };
    store.create_session(&new).await.unwrap();
}

// With one heartbeat in twenty minutes, what one beat leaves over is left for long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_a_dead_node_left_is_taken_up_without_another_heartbeat() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open_sqlite(directory.path()).unwrap();
    for bits in 1..=400 {
        orphan(&store, bits).await;
    }
    let node = Node::with(store.clone(), &Arc::default(), |settings| {
        settings.lease_ttl = Duration::from_secs(3600);
    });
    let me = NodeId::new("node-1").unwrap();
    let none_left = || async {
        let left = store.owned_or_orphaned(&me, Moment::Clock).await.unwrap();
        left.is_empty().then_some(())
    };
    let taken = tokio::time::timeout(PATIENCE, node.eventually(none_left)).await;
    assert!(taken.is_ok(), "some are left until the next heartbeat");
}
