//! A database that is out of reach for a while, at the worst moments.

use std::sync::Arc;
use std::time::Duration;

use crate::cluster::{self, Cluster};
use crate::node::{Node, tool};
use crate::proxy::{Cut, Proxy, Then};
use haft_core::session::{Driver as DrivenBy, Event, Input};
use haft_core::tool::{Concurrency, ToolSpec};
use haft_core::{CallId, SessionId};
use haft_runtime::{Clock, InputError};
use haft_store::Store;

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

#[expect(clippy::print_stdout, reason = "what a run leaves out is said aloud")]
fn is_left_out() -> bool {
    let left_out = cluster::is_left_out();
    if left_out {
        println!("left out: PostgreSQL (HAFT_TEST_FAST=1)");
    }
    left_out
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
    let setting = Setting::new(Duration::from_secs(2)).await;
    let (node, session) = (&setting.node, setting.session);
    let first = node.propose(session, &alone("waiting")).await;
    let second = node.propose(session, &tool("second", |_| {})).await;
    node.begun(first).await;
    setting.proxy.cut();
    node.world.open();
    tokio::time::sleep(Duration::from_secs(3)).await;
    // Whoever asks meanwhile is told so, and does not wait along.
    let asked =
        tokio::time::timeout(Duration::from_secs(20), node.driver.input(session, Input::Woken));
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
    let setting = Setting::new(Duration::from_secs(10)).await;
    for (n, cut) in [Cut::BeforeCommit, Cut::AfterCommit].into_iter().cycle().take(10).enumerate() {
        setting.proxy.cut_next(cut, Then::Heals);
        let call = setting.node.propose(setting.session, &tool("charge", |_| {})).await;
        assert!(setting.node.outcome(setting.session, call).await.is_ok());
        assert_eq!(setting.proxy.n_cuts() as usize, n + 1, "the wire was cut at a commit");
        let told = setting.told(call).await;
        assert_eq!((told, setting.node.world.effects(call)), ((1, 0), 1), "{cut:?}");
    }
}
