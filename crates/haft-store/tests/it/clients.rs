//! Which clients are connected where: they count while their node lives, and for how long nobody has
//! been there is counted from when the last one left or its node was last heard of.

use haft_core::tool::{Executor, Gate, ToolSpec};
use haft_core::{CallId, Millis, SessionId};
use haft_store::{Attendance, ClientNote, Moment, Page, Store};

use crate::backing::{Backing, on_every_store};
use crate::driver::{START, Session, fresh, node, tool};

const TTL: Millis = Millis(10_000);

fn after(ms: u64) -> Moment {
    Moment::At(START + Millis(ms))
}

fn note(session: SessionId, attendance: Attendance) -> Vec<ClientNote> {
    vec![ClientNote { session, tool: "draw".to_owned(), attendance }]
}

async fn away(store: &Store, session: SessionId, ms: u64) -> Option<u64> {
    store.client_away_for(session, "draw", after(ms)).await.unwrap().map(|away| away.0)
}

// S4-29
#[test]
fn s4_29_a_client_is_known_on_every_node_until_it_leaves() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let other = backing.beside(&store).await;
        let session = SessionId::from_bits(fresh());
        let (a, b) = (node("a"), node("b"));
        store.heartbeat(&a, after(0), TTL).await.unwrap();
        store.heartbeat(&b, after(0), TTL).await.unwrap();
        assert_eq!(away(&other, session, 0).await, None, "nobody has been seen");

        store.note_clients(&a, note(session, Attendance::Here), after(10)).await.unwrap();
        assert_eq!(away(&other, session, 5_000).await, Some(0));
        let elsewhere = other.client_away_for(session, "paint", after(10)).await.unwrap();
        assert_eq!(elsewhere, None, "another tool of the same session");

        other.note_clients(&b, note(session, Attendance::Here), after(20)).await.unwrap();
        store.note_clients(&a, note(session, Attendance::Gone), after(6_000)).await.unwrap();
        assert_eq!(away(&store, session, 7_000).await, Some(0), "the other node has one");
        other.note_clients(&b, note(session, Attendance::Gone), after(8_000)).await.unwrap();
        assert_eq!(away(&store, session, 9_500).await, Some(1_500));

        store.note_clients(&a, note(session, Attendance::Here), after(9_600)).await.unwrap();
        assert_eq!(away(&other, session, 9_700).await, Some(0), "it came back");
    });
}

// S4-29
#[test]
fn s4_29_the_clients_of_a_dead_node_are_gone_since_it_was_last_heard_of() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let session = SessionId::from_bits(fresh());
        let (a, b) = (node("a"), node("b"));
        store.heartbeat(&a, after(0), TTL).await.unwrap();
        store.note_clients(&a, note(session, Attendance::Here), after(0)).await.unwrap();
        assert_eq!(away(&store, session, 9_999).await, Some(0));
        assert_eq!(away(&store, session, 12_000).await, Some(2_000));

        let hours = 3 * 3_600_000;
        let nobody = SessionId::from_bits(fresh());
        store.heartbeat(&b, after(hours), TTL).await.unwrap();
        store.note_clients(&b, note(nobody, Attendance::Here), after(hours)).await.unwrap();
        assert_eq!(away(&store, session, hours).await, None, "it is not kept for ever");
    });
}

// S4-29
#[test]
fn s4_29_the_clients_of_a_node_that_went_away_have_left() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let session = SessionId::from_bits(fresh());
        let a = node("a");
        store.heartbeat(&a, Moment::Clock, TTL).await.unwrap();
        store.note_clients(&a, note(session, Attendance::Here), Moment::Clock).await.unwrap();
        store.retire(&a).await.unwrap();
        let left = store.client_away_for(session, "draw", Moment::Clock).await.unwrap();
        assert!(left.is_some(), "when it left is known");
    });
}

const GRACE: Millis = Millis(5_000);

/// A client runs it, and nobody approves it first.
fn drawn() -> ToolSpec {
    tool("draw", |definition| {
        definition.executor = Executor::Client;
        definition.gate = Gate::Auto;
    })
}

async fn abandoned(store: &Store, ms: u64) -> Vec<CallId> {
    let found = store.abandoned(GRACE, after(ms), &Page::first(100)).await.unwrap();
    found.into_iter().map(|wait| wait.call).collect()
}

// E13, S4-29
#[test]
fn a_call_is_abandoned_once_its_client_has_been_away_for_long_enough() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let (a, b) = (node("a"), node("b"));
        store.heartbeat(&a, after(0), TTL).await.unwrap();
        store.heartbeat(&b, after(0), Millis(100_000)).await.unwrap();
        let mut session = Session::create(&store, "acme").await;
        let call = session.propose(&drawn()).await;
        let here = note(session.id, Attendance::Here);
        let gone = note(session.id, Attendance::Gone);
        assert_eq!(abandoned(&store, 4_999).await, []);
        assert_eq!(abandoned(&store, 5_000).await, [call], "nobody came");
        store.note_clients(&a, here.clone(), after(6_000)).await.unwrap();
        assert_eq!(abandoned(&store, 9_000).await, [], "one is there");
        store.note_clients(&b, here, after(9_100)).await.unwrap();
        store.note_clients(&b, gone.clone(), after(9_200)).await.unwrap();
        assert_eq!(abandoned(&store, 9_900).await, [], "another is still there");
        // The lease of its node runs out at 10 s.
        assert_eq!(abandoned(&store, 14_900).await, [], "its node was heard of not long ago");
        assert_eq!(abandoned(&store, 15_000).await, [call], "its node is dead");
        store.heartbeat(&a, after(16_000), TTL).await.unwrap();
        assert_eq!(abandoned(&store, 16_000).await, [], "its node is back");
        store.note_clients(&a, gone, after(17_000)).await.unwrap();
        assert_eq!(abandoned(&store, 21_999).await, []);
        assert_eq!(abandoned(&store, 22_000).await, [call], "it left");
    });
}

// E13: ten thousand calls whose clients are there are looked at once, and not again.
#[test]
fn calls_that_a_client_is_there_for_are_not_looked_at_again() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let a = node("a");
        store.heartbeat(&a, after(0), Millis(1_000_000)).await.unwrap();
        let draw = drawn();
        let mut parked = Vec::new();
        for _ in 0..200 {
            let mut session = Session::create(&store, "acme").await;
            store.note_clients(&a, note(session.id, Attendance::Here), after(0)).await.unwrap();
            let calls = session.propose_all(&[&draw; 50]).await;
            parked.push((session.id, calls));
        }
        let loads = store.measures().loads();
        let looked_at = "SELECT count(*) FROM waits WHERE unattended_since IS NOT NULL";
        let looked_at = match backing {
            Backing::Postgres(_) => looked_at.to_owned(),
            Backing::Sqlite(_) => looked_at.replace("waits", "calls"),
        };
        assert_eq!(backing.count(&looked_at).await, 10_000, "not looked at yet");
        assert_eq!(abandoned(&store, 6_000).await, []);
        assert_eq!(backing.count(&looked_at).await, 0, "nothing is left to look at");
        let (session, calls) = &parked[7];
        let gone = note(*session, Attendance::Gone);
        store.note_clients(&a, gone, after(7_000)).await.unwrap();
        assert_eq!(backing.count(&looked_at).await, 50, "only those of the one that left");
        let mut found = abandoned(&store, 12_000).await;
        found.sort_unstable();
        assert_eq!(&found, calls);
        assert_eq!(store.measures().loads(), loads, "no session is read for it");
    });
}
