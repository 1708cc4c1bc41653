//! A node that goes away: it begins nothing, records what it did, and hands the rest over.

use std::sync::Arc;
use std::time::Duration;

use crate::node::{Node, World, tool};
use haft_core::session::{Driver as DrivenBy, Event, Input, SuspensionKind};
use haft_core::tool::{Concurrency, Mutates, ToolSpec};
use haft_core::{CallId, CallResult, ErrorClass, Millis, SessionId};
use haft_runtime::InputError;
use haft_store::{NodeId, Store};

fn alone(name: &str) -> ToolSpec {
    tool(name, |definition| definition.concurrency = Concurrency::Exclusive)
}

struct Going {
    _directory: tempfile::TempDir,
    store: Store,
    world: Arc<World>,
    node: Node,
    session: SessionId,
}

impl Going {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open_sqlite(directory.path()).unwrap();
        let world = Arc::default();
        let node = Node::with(store.clone(), &world, |_| {});
        let session = node.open(DrivenBy::Caller).await;
        Self { _directory: directory, store, world, node, session }
    }

    /// Starts to shut down, and returns when nothing more is taken.
    async fn go(&self, patience: Duration) -> tokio::task::JoinHandle<()> {
        let driver = self.node.driver.clone();
        let going = tokio::spawn(async move { driver.shutdown(patience).await });
        let closed = || async {
            let refused = self.node.driver.input(self.session, Input::Woken).await;
            matches!(refused, Err(InputError::ShuttingDown)).then_some(())
        };
        self.node.eventually(closed).await;
        going
    }

    fn next_node(&self) -> Node {
        let node = Node::with(self.store.clone(), &self.world, |settings| {
            settings.node = NodeId::new("node-2").unwrap();
        });
        node.clock.advance(Millis(1));
        node
    }

    async fn starts(&self, call: CallId) -> usize {
        let events = self.node.events(self.session).await;
        let starts = events.iter().filter(
            |event| matches!(event, Event::CallStarted { call: started, .. } if *started == call),
        );
        starts.count()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_goes_away_begins_nothing_and_the_next_one_goes_on() {
    let going = Going::new().await;
    let first = going.node.propose(going.session, &alone("waiting")).await;
    let second = going.node.propose(going.session, &tool("second", |_| {})).await;
    going.node.begun(first).await;
    let gone = going.go(Duration::from_secs(60)).await;
    going.world.open();
    gone.await.unwrap();
    assert!(going.node.outcome(going.session, first).await.is_ok(), "what ran is recorded");
    assert_eq!((going.starts(second).await, going.world.effects(second)), (0, 0));
    let next = going.next_node();
    assert!(next.outcome(going.session, second).await.is_ok(), "nobody had to ask for it");
    assert_eq!(going.world.effects(second), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_outlasts_the_patience_is_stopped_and_in_doubt_on_the_next_node() {
    let going = Going::new().await;
    let stubborn = going.node.propose(going.session, &tool("hang", |_| {})).await;
    let stopped = going.node.propose(going.session, &tool("stoppable", |_| {})).await;
    let done = going.node.propose(going.session, &tool("obliging", |_| {})).await;
    for call in [stubborn, stopped, done] {
        going.node.begun(call).await;
    }
    going.go(Duration::from_millis(20)).await.await.unwrap();
    assert_eq!(going.node.driver.n_at_work(), 0, "nothing is waited for any more");
    let outcome = going.node.outcome(going.session, done).await;
    assert!(outcome.is_ok(), "what a tool did is told as it was: {outcome:?}");
    let next = going.next_node();
    let doubts = next
        .eventually(|| async { Some(next.pending().await).filter(|doubts| doubts.len() == 2) })
        .await;
    for doubt in doubts {
        assert_eq!(doubt.kind, SuspensionKind::Settlement);
        assert!([stubborn, stopped].contains(&doubt.call));
        assert_eq!(going.world.effects(doubt.call), 1);
    }
}

// What only looks is looked up again, and the caller never learns that a node went away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_that_was_stopped_is_taken_again_by_the_next_node() {
    let going = Going::new().await;
    let look = tool("stoppable_look", |definition| definition.facets.mutates = Some(Mutates::None));
    let call = going.node.propose(going.session, &look).await;
    going.node.begun(call).await;
    going.go(Duration::from_millis(20)).await.await.unwrap();
    let next = going.next_node();
    next.eventually(|| async { (going.world.effects(call) == 2).then_some(()) }).await;
    next.driver.shutdown(Duration::from_millis(20)).await;
    let events = next.events(going.session).await;
    let cancelled = events.iter().any(|event| match event {
        Event::CallFinished { outcome } => {
            matches!(&outcome.result, CallResult::Err(e) if e.class == ErrorClass::Cancelled)
        }
        _ => false,
    });
    assert!(!cancelled, "that a node goes away is no reason for a call to fail");
}
