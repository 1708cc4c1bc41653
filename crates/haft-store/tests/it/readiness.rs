//! Whether a write can be made durable now, as the store itself says.

use std::time::Duration;

use haft_store::{ErrorKind, Store};

use crate::backing::{on_every_store, runtime};
use crate::cluster::{Cluster, is_left_out};
use crate::outage::PATIENCE;

#[test]
fn a_store_that_can_be_written_to_says_so() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        for _ in 0..3 {
            store.check_writable().await.unwrap();
        }
        assert_eq!(store.stopped(), None);
    });
}

/// Changes a setting of a whole cluster for connections to come and those that there are.
#[expect(clippy::disallowed_methods, reason = "goes around the store on purpose")]
pub(crate) async fn set(cluster: &Cluster, setting: &str) {
    let url = format!("{}?options=-cdefault_transaction_read_only%3Doff", cluster.url());
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    client.batch_execute(&format!("ALTER SYSTEM SET {setting}")).await.unwrap();
    client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
}

/// Asks until the answer is as wanted; an answer that does not come within a second is none.
async fn until(store: &Store, is_wanted: impl Fn(Option<Result<(), ErrorKind>>) -> bool) {
    let began = std::time::Instant::now();
    loop {
        let asked = tokio::time::timeout(Duration::from_secs(1), store.check_writable()).await;
        let answer = asked.ok().map(|answer| answer.map_err(|error| error.kind()));
        if is_wanted(answer) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{answer:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

// E4: a read-only database and one that waits for a standby read as ready.
#[test]
fn a_database_that_is_read_only_or_waits_for_a_standby_is_not_writable() {
    if is_left_out() {
        return;
    }
    let cluster = Cluster::private();
    runtime().block_on(async {
        let store = Store::connect_postgres(&cluster.url()).await.unwrap();
        store.check_writable().await.unwrap();
        set(&cluster, "default_transaction_read_only = on").await;
        until(&store, |answer| answer == Some(Err(ErrorKind::ReadOnly))).await;
        set(&cluster, "default_transaction_read_only = off").await;
        until(&store, |answer| answer == Some(Ok(()))).await;
        set(&cluster, "synchronous_standby_names = 'nobody'").await;
        until(&store, |answer| answer.is_none()).await;
        set(&cluster, "synchronous_standby_names = ''").await;
        until(&store, |answer| answer == Some(Ok(()))).await;
        assert_eq!(store.stopped(), None, "no restart is needed");
    });
}
