//! What a hostile reader found about crashes and races: each test states what holds.

use std::time::Duration;

use haft_core::Millis;
use haft_store::{AppendError, Moment, Store};

use crate::backing::{Directory, on_every_store, on_postgres, runtime, tamper_sqlite};
use crate::driver::{Failed, START, Session, node};
use crate::outage::PATIENCE;

// A reader that goes away (a request that is dropped) must not break the others.
#[test]
fn a_read_that_is_given_up_breaks_no_other_read() {
    runtime().block_on(async {
        let directory = Directory::new();
        let store = Store::open_sqlite(directory.path()).unwrap();
        let id = Session::create_owned(&store, "acme", None).await.id;
        drop(store);
        // A long log, so that reading it takes a while.
        let sql =
            "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 40000)
             INSERT INTO events (place, session, seq, previous, at, format, parts, body)
             SELECT i, key, i, CASE WHEN i = 100 THEN tail ELSE i - 1 END, 0, 1, zeroblob(36), ''
             FROM sessions, n;
             UPDATE sessions SET tail = 40000;";
        tamper_sqlite(&directory, sql);
        let store = Store::open_sqlite(directory.path()).unwrap();
        let mut broken = Vec::new();
        for _ in 0..8 {
            let read = || {
                let (store, id) = (store.clone(), id);
                tokio::spawn(async move { store.entries(id, 0, 100_000).await })
            };
            let given_up: Vec<_> = (0..4).map(|_| read()).collect();
            tokio::time::sleep(Duration::from_millis(3)).await;
            given_up.iter().for_each(tokio::task::JoinHandle::abort);
            if let Err(error) = store.entries(id, 0, 1).await {
                broken.push(error);
            }
        }
        assert!(broken.is_empty(), "{} of 20 reads failed: {:?}", broken.len(), broken.first());
    });
}

// A node that is frozen between locking and committing must not take the others along.
#[test]
fn a_frozen_transaction_on_one_session_leaves_the_others_and_the_heartbeat_alone() {
    on_postgres(async |schema| {
        let store = Store::connect_postgres(schema.url()).await.unwrap();
        let frozen = Session::create_owned(&store, "acme", None).await;
        let other = Session::create_owned(&store, "acme", None).await;
        #[expect(clippy::disallowed_methods, reason = "plays the frozen node")]
        let (client, connection) =
            tokio_postgres::connect(schema.url(), tokio_postgres::NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        client.batch_execute("BEGIN").await.unwrap();
        let id = frozen.id.bits().to_be_bytes().to_vec();
        let sql = "SELECT 1 FROM sessions WHERE id = $1 FOR UPDATE";
        assert_eq!(client.query(sql, &[&id]).await.unwrap().len(), 1);

        // What any other node does when it wants the frozen node's session.
        for n in 0..4 {
            let (store, id) = (store.clone(), frozen.id);
            tokio::spawn(async move {
                drop(store.acquire(id, &node(&format!("n{n}")), Moment::Clock).await);
            });
        }
        // Long enough for them to wait; if it is not, that is not tested.
        tokio::time::sleep(Duration::from_millis(300)).await;
        // Whoever waits for the frozen node is refused by the store after a while.
        let mut late = Vec::new();
        for n in 0..4 {
            let b = node("b");
            let beat = store.heartbeat(&b, Moment::At(START), Millis(1000));
            if !matches!(tokio::time::timeout(PATIENCE, beat).await, Ok(Ok(_))) {
                late.push(n);
            }
        }
        let loaded = tokio::time::timeout(PATIENCE, store.load(other.id)).await;
        let loaded = matches!(loaded, Ok(Ok(Some(_))));
        drop(client);
        connection.abort();
        assert!(
            late.is_empty() && loaded,
            "late heartbeats {late:?}, another session loads: {loaded}"
        );
    });
}

// A log whose end is missing is an error, and not a loop without end.
#[test]
fn a_log_without_its_end_does_not_load_as_if_it_were_whole() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut session = Session::create_owned(&store, "acme", None).await;
        let (_, input) = crate::driver::proposal(&crate::driver::charge());
        drop(session.input(input).await);
        backing.tamper("DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)").await;
        let loaded = store.load(session.id).await;
        assert!(loaded.is_err(), "loads a head that every append will be refused for");
    });
}

// What shared a commit with something that cannot be stored is stored all the same, and the writer
// goes on from what is there and not from what it had tried to write.
#[test]
fn an_append_that_the_database_refuses_leaves_no_trace_and_harms_no_other() {
    runtime().block_on(async {
        let directory = Directory::new();
        let store = Store::open_sqlite(directory.path()).unwrap();
        let mut refused = Session::create(&store, "acme").await;
        let mut beside = Session::create(&store, "acme").await;
        tamper_sqlite(
            &directory,
            "CREATE TRIGGER refused BEFORE INSERT ON calls WHEN new.tool = 'charge_card'
             BEGIN SELECT RAISE(ABORT, 'refused'); END",
        );
        for _ in 0..8 {
            let (_, input) = crate::driver::proposal(&crate::driver::charge());
            let tool = crate::driver::read();
            let (failed, _) = tokio::join!(refused.input(input), beside.propose(&tool));
            let is_the_stores = matches!(failed, Err(Failed::Append(AppendError::Store(_))));
            assert!(is_the_stores, "{failed:?}");
        }
        refused.propose(&crate::driver::read()).await;
        assert_eq!(store.verify(refused.id).await.unwrap(), refused.head);
        assert_eq!(store.verify(beside.id).await.unwrap(), beside.head);
    });
}
