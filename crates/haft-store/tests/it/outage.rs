//! A database that goes away and comes back, and one that is not ours.

use std::time::Duration;

use haft_store::{AppendError, ErrorKind, Store};

use crate::backing::{on_postgres, runtime};
use crate::cluster::{Cluster, is_left_out};
use crate::driver::{Failed, Session, ok, proposal, read};

// Nothing acknowledged is lost, nothing is stored twice, and the store goes on by itself.
#[test]
fn a_store_survives_its_database_being_killed_under_load() {
    if is_left_out() {
        return;
    }
    let cluster = Cluster::private();
    runtime().block_on(async {
        let store = Store::connect_postgres(&cluster.url()).await.unwrap();
        let mut tasks = Vec::new();
        for _ in 0..16 {
            let store = store.clone();
            tasks.push(tokio::spawn(work_through_outages(store)));
        }
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(300)).await;
            cluster.stop();
            tokio::time::sleep(Duration::from_millis(200)).await;
            cluster.start_again();
        }
        let mut n_outages = 0;
        for task in tasks {
            let (session, outages) = task.await.unwrap();
            n_outages += outages;
            assert_eq!(store.verify(session.id).await, Ok(session.head));
            assert_eq!(store.load(session.id).await.unwrap().unwrap().state, session.state);
        }
        assert!(n_outages > 0, "no one met an outage");
    });
}

/// Appends until 60 calls have ended, loading again whenever the database was away.
async fn work_through_outages(store: Store) -> (Session, u32) {
    let mut session = Session::create(&store, "acme").await;
    let mut outages = 0;
    for _ in 0..60 {
        let acknowledged = session.head;
        let (call, input) = proposal(&read());
        match session.input(input.clone()).await {
            Ok(()) => {}
            Err(Failed::Append(AppendError::Store(error))) => {
                assert!(
                    matches!(error.kind(), ErrorKind::Gone | ErrorKind::Unknown),
                    "{:?}: {error}",
                    error.kind()
                );
                outages += 1;
                session = load_again(&session).await;
                assert!(session.head.seq >= acknowledged.seq, "an acknowledged entry is gone");
                if session.state.as_open().unwrap().call(call).is_none() {
                    session.input(input).await.unwrap();
                }
            }
            Err(other) => panic!("{other:?}"),
        }
        while let Err(error) = finish(&mut session, call).await {
            assert!(matches!(error.kind(), ErrorKind::Gone | ErrorKind::Unknown), "{error}");
            outages += 1;
            session = load_again(&session).await;
            if session.state.as_open().unwrap().call(call).is_none_or(|call| !call.phase.is_open())
            {
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    (session, outages)
}

async fn finish(session: &mut Session, call: haft_core::CallId) -> Result<(), haft_store::Error> {
    let attempt = session.state.as_open().unwrap().call(call).unwrap().attempts;
    let report = haft_core::session::AttemptReport::Returned(ok("sunny").into());
    let ended = haft_core::session::AttemptEnded { call, attempt, report };
    match session.input(haft_core::session::Input::AttemptEnded(ended)).await {
        Ok(()) => Ok(()),
        Err(Failed::Append(AppendError::Store(error))) => Err(error),
        Err(other) => panic!("{other:?}"),
    }
}

async fn load_again(session: &Session) -> Session {
    for _ in 0..200 {
        if let Ok(Some(loaded)) = session.store.load(session.id).await {
            let (state, head) = (loaded.state, loaded.head);
            return Session { state, head, ..session.clone() };
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the database did not come back")
}

#[test]
fn a_database_that_is_not_ours_or_of_a_newer_haft_is_refused() {
    on_postgres(async |schema| {
        schema.run("CREATE TABLE sessions (name text)").await;
        let error = Store::connect_postgres(schema.url()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongFile, "{error}");
    });
    on_postgres(async |schema| {
        drop(Store::connect_postgres(schema.url()).await.unwrap());
        schema.run("INSERT INTO haft_schema VALUES (99)").await;
        let error = Store::connect_postgres(schema.url()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NewerSchema, "{error}");
    });
}

#[test]
fn a_database_that_does_not_answer_is_said_to_be_away() {
    runtime().block_on(async {
        let url = "postgres://postgres@127.0.0.1:1/postgres";
        let error = Store::connect_postgres(url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Gone, "{error}");
        assert!(error.is_retryable());
        let error = Store::connect_postgres("postgres://[").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    });
}

// Nodes that start at the same moment on an empty database do not get in each other's way.
#[test]
fn many_nodes_may_start_at_once_on_an_empty_database() {
    on_postgres(async |schema| {
        let nodes: Vec<_> = (0..6)
            .map(|_| {
                let url = schema.url().to_owned();
                tokio::spawn(async move { Store::connect_postgres(&url).await })
            })
            .collect();
        for node in nodes {
            node.await.unwrap().unwrap();
        }
    });
}
