//! A database that goes away and comes back, and one that is not ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use haft_core::session::{AttemptEnded, AttemptReport, Input};
use haft_store::{AppendError, ErrorKind, Store};

use crate::backing::{on_postgres, runtime};
use crate::cluster::{Cluster, is_left_out};
use crate::driver::{Failed, Session, ok, proposal, read};
use crate::readiness::set;

/// How long to wait for a state before a test fails. No test passes or fails by how long it takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

// Nothing acknowledged is lost, nothing is stored twice, and the store goes on by itself.
#[test]
fn a_store_survives_its_database_being_killed_under_load() {
    if is_left_out() {
        return;
    }
    let cluster = Cluster::private();
    runtime().block_on(async {
        let store = Store::connect_postgres(&cluster.url()).await.unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let mut tasks = Vec::new();
        for _ in 0..16 {
            tasks.push(tokio::spawn(work_through_outages(store.clone(), Arc::clone(&over))));
        }
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(300)).await;
            cluster.stop();
            tokio::time::sleep(Duration::from_millis(200)).await;
            cluster.start_again();
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        over.store(true, Ordering::Relaxed);
        for task in tasks {
            let session = task.await.unwrap();
            assert_eq!(store.verify(session.id).await, Ok(session.head));
            assert_eq!(store.load(session.id).await.unwrap().unwrap().state, session.state);
        }
    });
}

/// Calls a tool over and over, as a driver does that loads again whenever the store says that the
/// database is away. The store need not, when it could find out what had become of a commit.
async fn work_through_outages(store: Store, over: Arc<AtomicBool>) -> Session {
    let mut session = Session::create(&store, "acme").await;
    while !over.load(Ordering::Relaxed) {
        let (call, input) = proposal(&read());
        let is_proposed = |session: &Session| session.open_call(call).is_some();
        carry_through(&mut session, input, is_proposed).await;

        let attempt = session.open_call(call).unwrap().attempts;
        let report = AttemptReport::Returned(ok("sunny").into());
        let ended = Input::AttemptEnded(AttemptEnded { call, attempt, report });
        let is_over = |session: &Session| session.open_call(call).is_none();
        carry_through(&mut session, ended, is_over).await;
    }
    session
}

/// Feeds an input until it has happened.
async fn carry_through(session: &mut Session, input: Input, happened: impl Fn(&Session) -> bool) {
    let acknowledged = session.head.seq;
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        match session.input(input.clone()).await {
            Ok(()) => return,
            Err(Failed::Append(AppendError::Store(error))) => {
                let away = matches!(error.kind(), ErrorKind::Gone | ErrorKind::Unknown);
                assert!(away, "{:?}: {error}", error.kind());
            }
            Err(other) => panic!("{other:?}"),
        }
        *session = load_again(session).await;
        assert!(session.head.seq >= acknowledged, "an acknowledged entry is gone");
        if happened(session) {
            return;
        }
    }
    panic!("the database is away for good")
}

async fn load_again(session: &Session) -> Session {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
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

// A server that ends a commit which waits for a standby says that it succeeded, though only one
// disk has it. A failover would then lose what was acknowledged.
#[test]
fn a_commit_that_no_standby_confirmed_is_not_acknowledged() {
    if is_left_out() {
        return;
    }
    let cluster = Cluster::private();
    runtime().block_on(async {
        let store = Store::connect_postgres(&cluster.url()).await.unwrap();
        let mut session = Session::create(&store, "acme").await;
        set(&cluster, "synchronous_standby_names = 'nobody'").await;
        let (_, input) = proposal(&read());
        let answer = session.input(input).await;
        let Err(Failed::Append(AppendError::Store(error))) = answer else { panic!("{answer:?}") };
        assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
        set(&cluster, "synchronous_standby_names = ''").await;
        let session = load_again(&session).await;
        assert_eq!(store.verify(session.id).await, Ok(session.head));
    });
}
