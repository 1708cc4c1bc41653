//! A database that is out of reach for a while, at the worst moments.

use std::sync::Arc;
use std::time::Duration;

use crate::cluster::{Cluster, is_left_out};
use crate::node::{Node, PATIENCE, proposal, tool};
use crate::proxy::{Cut, Proxy, Then};
use haft_core::session::{CallsProposed, Driver as DrivenBy, Event, Input};
use haft_core::tool::{Concurrency, ToolSpec};
use haft_core::{CallId, SessionId};
use haft_runtime::{Clock, InputError};
use haft_store::{ErrorKind, Store};

/// A node whose database can be taken away.
struct Setting {
    node: Node,
    proxy: Proxy,
    session: SessionId,
    _cluster: Cluster,
}

impl Setting {
    async fn new(lease_ttl: Duration) -> Self {
        let cluster = Cluster::private();
        let url = cluster.url();
        let port = url.rsplit_once(':').unwrap().1.split_once('/').unwrap().0;
        let proxy = Proxy::before(port.parse().unwrap());
        let url = url.replace(port, &proxy.port().to_string());
        let store = Store::connect_postgres(&url).await.unwrap();
        let node = Node::with(store, &Arc::default(), |settings| {
            settings.clock = Clock::System;
            settings.lease_ttl = lease_ttl;
        });
        let session = node.open(DrivenBy::Caller).await;
        Self { node, proxy, session, _cluster: cluster }
    }

    /// Returns whether a call is in doubt, once it is either that or over.
    async fn is_in_doubt(&self, call: CallId) -> Option<bool> {
        if self.node.pending().await.iter().any(|pending| pending.call == call) {
            return Some(true);
        }
        let events = self.node.events(self.session).await;
        let over = |event: &Event| matches!(event, Event::CallFinished { outcome } if outcome.call == call);
        events.iter().any(over).then_some(false)
    }

    /// Returns how often the log says that a call was begun, and became doubtful.
    async fn told(&self, call: CallId) -> (usize, usize) {
        let events = self.node.events(self.session).await;
        let count = |wanted: fn(&Event) -> Option<CallId>| {
            events.iter().filter(|event| wanted(event) == Some(call)).count()
        };
        let begun = count(|event| match event {
            Event::CallStarted { call, .. } => Some(*call),
            _ => None,
        });
        let doubtful = count(|event| match event {
            Event::CallInterrupted { call, .. } => Some(*call),
            _ => None,
        });
        (begun, doubtful)
    }
}

fn alone(name: &str) -> ToolSpec {
    tool(name, |definition| definition.concurrency = Concurrency::Exclusive)
}

// Nobody has taken the session meanwhile, so that what the tool did is recorded and all goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_longer_than_the_lease_loses_no_report() {
    if is_left_out() {
        return;
    }
    const LEASE: Duration = Duration::from_secs(10);
    let setting = Setting::new(LEASE).await;
    let (node, session) = (&setting.node, setting.session);
    let first = node.propose(session, &alone("waiting")).await;
    let second = node.propose(session, &tool("second", |_| {})).await;
    node.begun(first).await;
    setting.proxy.cut();
    node.world.open();
    tokio::time::sleep(LEASE + Duration::from_secs(2)).await;
    // Whoever asks meanwhile is told so, and does not wait along.
    let asked = tokio::time::timeout(PATIENCE, node.driver.input(session, Input::Woken));
    let told = asked.await.expect("an answer, however bad");
    assert!(matches!(told, Err(InputError::StoreAway(_))), "{told:?}");
    setting.proxy.heal();
    assert!(node.outcome(session, first).await.is_ok());
    assert!(node.outcome(session, second).await.is_ok());
    for call in [first, second] {
        assert_eq!((setting.told(call).await, node.world.effects(call)), ((1, 0), 1));
    }
}

// S4-26: whether the commit happened or not, it is found out, and the tool runs once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s4_26_a_commit_whose_answer_is_lost_is_read_back_and_its_effect_happens_once() {
    if is_left_out() {
        return;
    }
    let setting = Setting::new(Duration::from_secs(60)).await;
    for (n, cut) in [Cut::BeforeCommit, Cut::AfterCommit].into_iter().cycle().take(10).enumerate() {
        setting.proxy.cut_next(cut, Then::Heals);
        let call = setting.node.propose(setting.session, &tool("charge", |_| {})).await;
        assert!(setting.node.outcome(setting.session, call).await.is_ok());
        assert_eq!(setting.proxy.n_cuts() as usize, n + 1, "the wire was cut at a commit");
        let told = setting.told(call).await;
        assert_eq!((told, setting.node.world.effects(call)), ((1, 0), 1), "{cut:?}");
    }
}

// The database stays away until the store gives up finding out: the node owes what was decided.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_of_unknown_fate_is_made_up_for_when_the_database_is_back() {
    if is_left_out() {
        return;
    }
    let setting = Setting::new(Duration::from_secs(60)).await;
    let (node, session) = (&setting.node, setting.session);
    for cut in [Cut::BeforeCommit, Cut::AfterCommit] {
        let first = node.propose(session, &alone("waiting")).await;
        let second = node.propose(session, &tool("second", |_| {})).await;
        node.begun(first).await;
        setting.proxy.cut_next(cut, Then::StaysCut);
        let before = setting.proxy.n_cuts();
        node.world.open();
        node.eventually(|| async { (setting.proxy.n_cuts() > before).then_some(()) }).await;
        // Longer than the store tries to find out. Should it be shorter, then it found out.
        tokio::time::sleep(Duration::from_secs(12)).await;
        setting.proxy.heal();
        assert!(node.outcome(session, first).await.is_ok());
        assert_eq!(node.world.effects(first), 1);
        // Recorded as begun and not done, it is in doubt; found out in time, it is done.
        let doubtful = node.eventually(|| setting.is_in_doubt(second)).await;
        assert_eq!(node.world.effects(second), u32::from(!doubtful), "{cut:?}");
        assert!(!doubtful || cut == Cut::AfterCommit, "it was never recorded as begun");
        node.world.shut();
    }
}

// A half-open connection: nothing comes back, and nobody says that it never will. The node gives it
// up by itself, tells whoever asks, and goes on over new connections once there are any.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_swallows_everything_holds_nobody_up_for_ever() {
    if is_left_out() {
        return;
    }
    let setting = Setting::new(Duration::from_secs(60)).await;
    let (node, session) = (&setting.node, setting.session);
    let first = node.propose(session, &alone("waiting")).await;
    let second = node.propose(session, &tool("second", |_| {})).await;
    node.begun(first).await;
    setting.proxy.swallow();
    node.world.open();
    // The one before the other waits until it is known not to get through; both are told.
    let third = proposal(CallId::from_bits(node.driver.fresh().unwrap()), &tool("third", |_| {}));
    let proposed = Input::CallsProposed(CallsProposed { calls: vec![third] });
    let told = node.driver.input(session, proposed).await;
    assert!(matches!(told, Err(InputError::Store(_) | InputError::StoreAway(_))), "{told:?}");
    let read = node.driver.store().load(session).await.unwrap_err();
    assert_eq!(read.kind(), ErrorKind::Gone, "{read}");
    setting.proxy.heal();
    // Those who were connecting when it swallowed find out first.
    let store = node.driver.store();
    let all_answer = || async {
        for _ in 0..8 {
            store.load(session).await.ok()?;
        }
        Some(())
    };
    node.eventually(all_answer).await;
    for call in [first, second] {
        assert!(node.outcome(session, call).await.is_ok());
        assert_eq!((setting.told(call).await, node.world.effects(call)), ((1, 0), 1));
    }
}

// Also at the very start, where nothing is connected yet.
#[tokio::test]
async fn a_database_that_takes_connections_and_says_nothing_is_away() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
    let error = Store::connect_postgres(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Gone, "{error}");
}
