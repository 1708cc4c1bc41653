//! A grant that is given settles the calls that wait already, once, whoever dies meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use haft_core::permission::{Condition, Source, Test};
use haft_core::session::DecidedKind;
use haft_core::{Actor, CallId, CallResult, SessionId};
use haft_runtime::testing::user;
use haft_runtime::{
    Answer, Boundary, GrantTerms, Haft, Holder, Observer, Opinion, Policy, Response, Settings,
    ToolFuture, Wish,
};
use haft_store::{Expected, NodeId, Place, Put, Store};
use serde_json::json;

use crate::standing::{give, node, on_both, refund, session, tenant};
use haft_core::tool::Gate;

async fn waits(haft: &Haft, session: SessionId, euro: u32) -> CallId {
    let arguments = json!({"euro": euro}).as_object().cloned().unwrap();
    match haft.call(session, "refund", arguments).await.unwrap() {
        Answer::Waiting(wait) => wait.call,
        other => panic!("it does not wait: {other:?}"),
    }
}

async fn succeeded(haft: &Haft, session: SessionId, call: CallId) -> bool {
    match haft.wait(session, call).await.unwrap() {
        Answer::Done(outcome) => matches!(outcome.result, CallResult::Ok(_)),
        Answer::Waiting(_) => false,
        Answer::InDoubt(_) => panic!("nothing crashed"),
    }
}

async fn decided(store: &Store, session: SessionId, call: CallId) -> Option<DecidedKind> {
    store.call(session, call).await.unwrap().unwrap().decided.map(|decided| decided.kind)
}

fn at_most(euro: &str, uses: u32) -> GrantTerms {
    let (field, test) = ("/euro".parse().unwrap(), Test::AtMost(euro.parse().unwrap()));
    GrantTerms { when: vec![Condition { field, test }], uses: Some(uses), ..GrantTerms::default() }
}

fn exactly(euro: u32) -> GrantTerms {
    let (field, test) = ("/euro".parse().unwrap(), Test::Equals(json!(euro)));
    GrantTerms { when: vec![Condition { field, test }], uses: Some(1), ..GrantTerms::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_settles_the_waits_that_it_covers_as_far_as_it_reaches() {
    on_both(|store| async move {
        let effects = Arc::default();
        let haft = node(&store, &effects);
        let (anns, bobs) = (session(&haft, "ann").await, session(&haft, "bob").await);
        let large = waits(&haft, anns, 900).await;
        let small = [waits(&haft, anns, 1).await, waits(&haft, bobs, 2).await];
        let third = waits(&haft, bobs, 3).await;
        let (acme, terms) = (tenant("acme"), at_most("5", 2));
        let grants = haft.grants();
        let given = grants.give(&acme, Holder::Tenant, "refund", terms, user("eve"));
        let given = given.await.unwrap();
        assert_eq!(given.settled.len(), 2, "{:?}", given.settled);
        let settled = |call| given.settled.iter().any(|(_, settled)| *settled == call);
        for (session, call) in [(anns, small[0]), (bobs, small[1]), (bobs, third), (anns, large)] {
            assert_eq!(succeeded(&haft, session, call).await, settled(call), "{call}");
        }
        assert!(!settled(large), "it is not covered");
        assert_eq!(effects.load(Ordering::SeqCst), 2);
        let left = haft.grants().list(&tenant("acme")).await.unwrap().remove(0).grant;
        assert_eq!(left.uses_left, Some(0));
        let (session, call) = given.settled[0];
        let late = haft.resolve(session, call, user("bob"), Response::Deny { note: None }).await;
        let late = late.unwrap_err().to_string();
        assert!(late.contains("`eve` decided `granted`"), "{late}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_and_a_grant_that_come_at_once_end_a_wait_once_and_nothing_is_lost() {
    on_both(|store| async move {
        let effects = Arc::default();
        let nodes = [node(&store, &effects), node(&store, &effects)];
        let mut by_grant = 0;
        for n in 1..=6u32 {
            let session = session(&nodes[0], "ann").await;
            let call = waits(&nodes[0], session, n).await;
            let approve = Response::Approve { arguments: None, note: None, grant: None };
            let (approved, _) = tokio::join!(
                nodes[n as usize % 2].resolve(session, call, user("bob"), approve),
                give(&nodes[1], Holder::Tenant, exactly(n)),
            );
            let winner = decided(&store, session, call).await;
            assert_eq!(approved.is_ok(), winner == Some(DecidedKind::Approve), "{winner:?}");
            by_grant += u32::from(approved.is_err());
            assert!(succeeded(&nodes[0], session, call).await);
            assert_eq!(effects.load(Ordering::SeqCst), n);
        }
        let held = nodes[0].grants().list(&tenant("acme")).await.unwrap();
        let left: u32 = held.iter().filter_map(|held| held.grant.uses_left).sum();
        assert_eq!(left, 6 - by_grant, "who lost used nothing");
    })
    .await;
}

/// A source of permission that never answers: whoever asks it may as well be dead.
struct Silent(Arc<AtomicU32>);

impl Policy for Silent {
    fn source(&self) -> Source {
        Source::Rule("silent".into())
    }

    fn judge<'a>(&'a self, _: Wish<'a>) -> ToolFuture<'a, Result<Option<Opinion>, String>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::pending())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_that_died_had_to_settle_is_settled_by_the_next() {
    on_both(|store| async move {
        let effects = Arc::default();
        let first = node(&store, &effects);
        let session = session(&first, "ann").await;
        let call = waits(&first, session, 1).await;
        first.shutdown(std::time::Duration::ZERO).await;

        let asked = Arc::new(AtomicU32::new(0));
        let dying = Haft::builder().tool(refund(Gate::Ask, &effects)).policy(Silent(asked.clone()));
        let dying = dying.start(store.clone()).unwrap();
        let giving = tokio::spawn({
            let dying = dying.clone();
            async move { give(&dying, Holder::Tenant, at_most("5", 1)).await }
        });
        while asked.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        giving.abort();
        assert_eq!(decided(&store, session, call).await, None);

        let next = node(&store, &effects);
        while decided(&store, session, call).await.is_none() {
            tokio::task::yield_now().await;
        }
        assert!(succeeded(&next, session, call).await);
        assert_eq!(decided(&store, session, call).await, Some(DecidedKind::Granted));
    })
    .await;
}

/// A node whose driver panics once, at the boundary between deciding and writing.
fn panics_once(store: &Store, effects: &Arc<AtomicU32>) -> (Haft, Arc<AtomicBool>) {
    let armed = Arc::new(AtomicBool::new(false));
    let trap = Arc::clone(&armed);
    let observer = Observer::new(move |boundary| {
        if boundary == Boundary::Decided && trap.swap(false, Ordering::SeqCst) {
            panic!("a fault of the test");
        }
    });
    let name = NodeId::new("panics-once").unwrap();
    let settings = Settings { observer, ..Settings::new(name) };
    let builder = Haft::builder().tool(refund(Gate::Ask, effects)).settings(settings);
    (builder.start(store.clone()).unwrap(), armed)
}

// A use that was taken for a wait and never recorded belongs to that wait: whoever looks next offers
// it again, and it is spent once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_whose_giver_panicked_before_it_was_recorded_settles_the_call_at_the_next_look() {
    on_both(|store| async move {
        let effects = Arc::default();
        let (haft, armed) = panics_once(&store, &effects);
        let session = session(&haft, "ann").await;
        let call = waits(&haft, session, 1).await;
        armed.store(true, Ordering::SeqCst);
        let giving = tokio::spawn({
            let haft = haft.clone();
            async move { give(&haft, Holder::Tenant, at_most("5", 1)).await }
        });
        assert!(giving.await.unwrap_err().is_panic());
        assert_eq!(decided(&store, session, call).await, None);

        // Every node looks when it starts.
        let next = node(&store, &effects);
        while decided(&store, session, call).await.is_none() {
            tokio::task::yield_now().await;
        }
        assert!(succeeded(&next, session, call).await);
        assert_eq!(decided(&store, session, call).await, Some(DecidedKind::Granted));
        assert_eq!(effects.load(Ordering::SeqCst), 1);
        let left = next.grants().list(&tenant("acme")).await.unwrap().remove(0).grant;
        assert_eq!(left.uses_left, Some(0), "it is spent once");
    })
    .await;
}

// E13: what is wrong with one grant, or with one call, is no reason to leave the others waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_note_that_cannot_be_read_keeps_no_grant_behind_it_from_settling() {
    on_both(|store| async move {
        let effects = Arc::default();
        let (haft, armed) = panics_once(&store, &effects);
        let session = session(&haft, "ann").await;
        let call = waits(&haft, session, 1).await;
        // A note that stands before every other, and was damaged.
        let place = Place::new(tenant("haft:grants"), "to_settle", "a").unwrap();
        let put = Put { place, expected: Expected::Absent, body: Some(b"{".to_vec()) };
        store.put_versions(vec![put], &Actor::system(), haft.now()).await.unwrap();
        armed.store(true, Ordering::SeqCst);
        let giving = tokio::spawn({
            let haft = haft.clone();
            async move { give(&haft, Holder::Tenant, at_most("5", 1)).await }
        });
        assert!(giving.await.unwrap_err().is_panic());

        let next = node(&store, &effects);
        while decided(&store, session, call).await.is_none() {
            tokio::task::yield_now().await;
        }
        assert!(succeeded(&next, session, call).await);
    })
    .await;
}
