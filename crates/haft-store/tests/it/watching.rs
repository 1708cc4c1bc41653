//! Waiting for changes of a session: on this node, on others, and after a listener was lost. And
//! reading a log in parts that are bounded in bytes.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use haft_store::{ChangedBy, Store, Watch};

use crate::backing::{on_every_store, on_postgres};
use crate::cluster;
use crate::driver::{Session, ok, proposal, read};

/// How long to wait for a state before a test fails. No test passes or fails by how long it takes.
const PATIENCE: Duration = Duration::from_secs(180);

/// Makes a call in a session and ends it: two appends.
async fn call(session: &mut Session) {
    let (call, input) = proposal(&read());
    session.input(input).await.unwrap();
    session.finish(call, ok("sunny")).await;
}

/// Waits until whoever watches knows of an entry.
async fn knows(watch: &mut Watch, seq: u64) {
    let told = async {
        while watch.known_seq() < seq {
            watch.changed().await;
        }
    };
    tokio::time::timeout(PATIENCE, told).await.expect("the watch is told");
}

#[test]
fn a_watch_is_told_of_appends_on_any_node() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let other = backing.beside(&store).await;
        let mut session = Session::create(&store, "acme").await;
        let mut here = store.watch(session.id, ChangedBy::Anyone);
        let mut there = other.watch(session.id, ChangedBy::Anyone);
        for _ in 0..5 {
            call(&mut session).await;
            knows(&mut here, session.head.seq).await;
            knows(&mut there, session.head.seq).await;
        }
        let touched = async {
            store.touch(session.id);
            there.changed().await;
        };
        tokio::time::timeout(PATIENCE, touched).await.expect("what is beside the log is told too");
    });
}

#[test]
fn a_watch_is_told_although_its_append_was_not_waited_for() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut session = Session::create(&store, "acme").await;
        let mut watch = store.watch(session.id, ChangedBy::Anyone);
        let before = session.head.seq;
        let (_, input) = proposal(&read());
        {
            // It is sent to the writer, and whoever sent it goes away before the answer.
            let mut sent = pin!(session.input(input));
            let polled = poll_fn(|context| Poll::Ready(sent.as_mut().poll(context))).await;
            assert!(polled.is_pending());
        }
        knows(&mut watch, before + 1).await;
    });
}

#[test]
fn a_watch_is_told_after_its_nodes_listener_was_lost() {
    on_postgres(async |schema| {
        let store = Store::connect_postgres(schema.url()).await.unwrap();
        let other = Store::connect_postgres(schema.url()).await.unwrap();
        let mut session = Session::create(&store, "acme").await;
        let mut watch = other.watch(session.id, ChangedBy::Anyone);
        let channel = format!("LISTEN haft\\_{}%", schema.name());
        let lose = format!(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE '{channel}'"
        );
        for _ in 0..3 {
            while cluster::sql(schema.url(), &lose).trim() == "0" {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            call(&mut session).await;
            knows(&mut watch, session.head.seq).await;
        }
    });
}

#[test]
fn a_log_is_read_in_parts_that_are_bounded_in_bytes() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut session = Session::create(&store, "acme").await;
        for _ in 0..60 {
            call(&mut session).await;
        }
        let whole = store.entries(session.id, 0, u32::MAX).await.unwrap();
        assert!(whole.len() > 150, "{}", whole.len());
        let largest_append = 8 * whole.iter().map(|entry| entry.body.len()).max().unwrap();
        for (limit, bytes_max) in [(1_000, 1), (1_000, 2_000), (7, 1_000_000), (1_000, usize::MAX)]
        {
            let (mut all, mut after) = (Vec::new(), 0);
            loop {
                let part = store.entries_within(session.id, after, limit, bytes_max).await.unwrap();
                let bytes: usize = part.iter().map(|entry| entry.body.len()).sum();
                assert!(bytes <= bytes_max.saturating_add(largest_append), "{limit} {bytes_max}");
                let may_be_more = part.len() == limit as usize || bytes >= bytes_max;
                all.extend(part);
                after = all.last().unwrap().seq;
                if !may_be_more {
                    break;
                }
                if after == session.head.seq {
                    break;
                }
            }
            assert_eq!(all, whole, "{limit} {bytes_max}");
        }
    });
}
