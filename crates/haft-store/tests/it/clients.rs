//! Which clients are connected where: they count while their node lives, and for how long nobody has
//! been there is counted from when the last one left or its node was last heard of.

use haft_core::{Millis, SessionId};
use haft_store::{Attendance, ClientNote, Moment, Store};

use crate::backing::on_every_store;
use crate::driver::{START, fresh, node};

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
