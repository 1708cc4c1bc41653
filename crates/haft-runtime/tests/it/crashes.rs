//! Crashes: a process dies with everything it was doing, and another one takes over.

use std::path::Path;
use std::sync::Arc;

use crate::node::{Node, World, ann, approve, charge, tool};
use haft_core::session::{Driver, Resolution, Settlement, SuspensionKind};
use haft_core::tool::{Facets, Idempotency, Mutates};
use haft_core::{CallId, Millis, SessionId, Timestamp};
use haft_runtime::ManualClock;

/// One life of a process: everything in it stops at once when the life is over.
fn life<T: Send + 'static, F: Future<Output = T> + Send>(
    directory: &Path,
    world: &Arc<World>,
    clock: &ManualClock,
    live: impl FnOnce(Node) -> F,
) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let lived = runtime.block_on(async {
        let node = Node::start(directory, world, clock);
        live(node).await
    });
    drop(runtime);
    lived
}

struct Lives {
    directory: tempfile::TempDir,
    world: Arc<World>,
    clock: ManualClock,
}

impl Lives {
    fn new() -> Self {
        let clock = ManualClock::at(Timestamp::from_ms(1_000_000));
        Self { directory: tempfile::tempdir().unwrap(), world: Arc::default(), clock }
    }

    fn live<T: Send + 'static, F: Future<Output = T> + Send>(
        &self,
        live: impl FnOnce(Node) -> F,
    ) -> T {
        life(self.directory.path(), &self.world, &self.clock, live)
    }
}

/// A life that ends inside a tool which never returns.
fn dies_inside(lives: &Lives, change: fn(&mut haft_core::tool::Definition)) -> (SessionId, CallId) {
    lives.live(async |node: Node| {
        let session = node.open(Driver::Caller).await;
        let call = node.propose(session, &tool("hang", change)).await;
        node.eventually(|| async { (node.world.effects(call) == 1).then_some(()) }).await;
        (session, call)
    })
}

// D4, S4-26: not idempotent, not keyed, not verifiable: parked, never run again by itself.
#[test]
fn d4_a_kill_inside_an_unsafe_tool_leaves_it_in_doubt_and_run_once() {
    let lives = Lives::new();
    let (session, call) = dies_inside(&lives, |_| {});
    lives.live(async |node: Node| {
        node.driver.wake(session);
        let pending = node.eventually(|| async { node.pending().await.into_iter().next() }).await;
        assert_eq!((pending.call, pending.kind), (call, SuspensionKind::Settlement));
        assert_eq!(node.world.effects(call), 1, "never silently run twice");
        let happened = Resolution::Settle(Settlement::Happened { output: None });
        node.driver.resolve(session, node.resolved(call, ann(), happened)).await.unwrap();
        assert!(node.outcome(session, call).await.is_ok());
    });
    assert_eq!(lives.world.effects(call), 1);
}

// S4-26: what only looks, or is keyed, runs again.
#[test]
fn s4_26_a_kill_inside_a_keyed_tool_runs_it_again() {
    let lives = Lives::new();
    let (session, call) = dies_inside(&lives, |definition| {
        definition.facets = Facets {
            mutates: Some(Mutates::Irreversible),
            idempotency: Some(Idempotency::Keyed),
            ..Facets::default()
        };
    });
    lives.live(async |node: Node| {
        node.driver.wake(session);
        node.eventually(|| async { (node.world.effects(call) == 2).then_some(()) }).await;
    });
}

// D5, S4-22, S4-25: killed while waiting; the answer comes later, to another process.
#[test]
fn d5_an_answer_to_a_dead_process_is_taken_and_continues_the_session() {
    let lives = Lives::new();
    let (session, call) = lives.live(async |node: Node| {
        let session = node.open(Driver::Caller).await;
        (session, node.propose(session, &charge()).await)
    });
    lives.live(async |node: Node| {
        node.driver.resolve(session, node.resolved(call, ann(), approve())).await.unwrap();
        assert!(node.outcome(session, call).await.is_ok());
    });
    assert_eq!(lives.world.effects(call), 1);
}

// D5, S4-27: the deadline passes while nobody is alive; the next process finds it.
#[test]
fn d5_an_expiry_while_dead_continues_the_session_by_itself() {
    let lives = Lives::new();
    let (session, call) = lives.live(async |node: Node| {
        let session = node.open(Driver::Caller).await;
        (session, node.propose(session, &charge()).await)
    });
    lives.clock.advance(Millis::from_secs(3600));
    lives.live(async |node: Node| {
        assert!(!node.outcome(session, call).await.is_ok());
    });
    assert_eq!(lives.world.effects(call), 0);
}

// D4: an acknowledged approval is not lost, however soon the process dies.
#[test]
fn d4_an_acknowledged_approval_survives_a_kill_right_after_it() {
    for _ in 0..10 {
        let lives = Lives::new();
        let (session, call) = lives.live(async |node: Node| {
            let session = node.open(Driver::Caller).await;
            let call = node.propose(session, &charge()).await;
            node.driver.resolve(session, node.resolved(call, ann(), approve())).await.unwrap();
            (session, call)
        });
        lives.live(async |node: Node| {
            node.driver.wake(session);
            node.eventually(|| async {
                let settled = node.pending().await.first().map(|pending| pending.kind);
                match settled {
                    // It had started: a person says what became of it.
                    Some(SuspensionKind::Settlement) => Some(()),
                    Some(_) => None,
                    None => (node.world.effects(call) == 1).then_some(()),
                }
            })
            .await;
        });
        assert!(lives.world.effects(call) <= 1, "one approval, at most one run");
    }
}
