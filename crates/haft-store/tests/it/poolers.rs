//! A pooler between the store and its database: refused by name, or all limits hold behind it.

use haft_store::{AppendError, ErrorKind, Store, examine_postgres};

use crate::backing::{Directory, runtime};
use crate::cluster::{Cluster, is_left_out};
use crate::driver::{Failed, Session, proposal, read};
use crate::pooler::{self, Pooler};

// E18
#[test]
fn a_pooler_that_shares_sessions_is_refused_by_name() {
    if is_left_out() {
        return;
    }
    let cluster = Cluster::private();
    runtime().block_on(async {
        for mode in ["transaction", "statement"] {
            let directory = Directory::new();
            let pooler = Pooler::start(&cluster, mode, directory.path(), pooler::free_port());
            let error = Store::connect_postgres(&pooler.url).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{mode}: {error}");
            let said = error.to_string();
            assert!(said.contains("PgBouncer") && said.contains("pool_mode = session"), "{said}");
        }
    });
}

// E18: the limits were dropped in silence.
#[test]
fn behind_a_pooler_that_keeps_sessions_everything_holds_and_the_limits_too() {
    if is_left_out() {
        return;
    }
    let cluster = Cluster::private();
    runtime().block_on(async {
        let directory = Directory::new();
        let pooler = Pooler::start(&cluster, "session", directory.path(), pooler::free_port());
        let store = Store::connect_postgres(&pooler.url).await.unwrap();
        let mut session = Session::create(&store, "acme").await;
        session.propose(&read()).await;
        assert_eq!(store.verify(session.id).await, Ok(session.head));
        let report = examine_postgres(&pooler.url).await.unwrap();
        assert!(report.between.unwrap().contains("pooler"));

        let locker = locked(&cluster).await;
        let (_, input) = proposal(&read());
        let refused = session.input(input).await;
        let Err(Failed::Append(AppendError::Store(error))) = refused else { panic!("{refused:?}") };
        assert_eq!(error.kind(), ErrorKind::Gone, "{error}");
        assert!(error.to_string().contains("lock timeout"), "{error}");
        drop(locker);
    });
}

/// Locks the sessions until what is returned is dropped.
#[expect(clippy::disallowed_methods, reason = "goes around the store on purpose")]
async fn locked(cluster: &Cluster) -> tokio_postgres::Client {
    let url = cluster.url();
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    drop(tokio::spawn(connection));
    client.batch_execute("BEGIN; LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE").await.unwrap();
    client
}

#[test]
fn settings_in_the_address_that_a_pooler_does_not_take_are_refused_by_name() {
    if is_left_out() {
        return;
    }
    let cluster = Cluster::private();
    runtime().block_on(async {
        let directory = Directory::new();
        let pooler = Pooler::start(&cluster, "session", directory.path(), pooler::free_port());
        let url = format!("{}?options=-csearch_path%3Dpublic", pooler.url);
        let error = Store::connect_postgres(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("ignore_startup_parameters"), "{error}");
    });
}
