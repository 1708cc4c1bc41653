//! A node whose last handle is dropped ends: its tasks stop and its directory is free again.

use std::path::Path;
use std::time::{Duration, Instant};

use haft_core::session::{Config, Driver};
use haft_core::tool::Mutates;
use haft_runtime::testing::user;
use haft_runtime::{Answer, Haft};
use haft_store::{Error, ErrorKind, Store, Tenant};
use serde_json::Map;

use crate::node::PATIENCE;
use crate::tools::kit::{Effects, echo, waiting};

/// Opens the store of a directory once nobody has it any more.
async fn opened(directory: &Path) -> Result<Store, Error> {
    let until = Instant::now() + PATIENCE;
    loop {
        match Store::open_sqlite(directory) {
            Err(error) if error.kind() == ErrorKind::InUse && Instant::now() < until => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            opened => return opened,
        }
    }
}

fn config() -> Config {
    Config { driver: Driver::Caller, ..Config::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_handle_of_a_node_ends_it_and_frees_its_directory() {
    let directory = tempfile::tempdir().unwrap();
    let effects = Effects::default();
    let tenant = Tenant::new("test").unwrap();
    let mut sessions = Vec::new();
    for life in 0..3 {
        let store = opened(directory.path()).await.unwrap();
        let haft = Haft::builder().tools([echo(&effects, "echo", |_| {})]).start(store).unwrap();
        sessions.push(haft.open(tenant.clone(), config(), user("owner")).await.unwrap());
        for session in &sessions {
            let answer = haft.call(*session, "echo", Map::new()).await.unwrap();
            assert!(matches!(answer, Answer::Done(_)), "life {life}: {answer:?}");
        }
        let second = haft.clone();
        drop(haft);
        let answer = second.call(sessions[0], "echo", Map::new()).await.unwrap();
        assert!(matches!(answer, Answer::Done(_)), "another handle keeps the node");
    }
    drop(opened(directory.path()).await.unwrap());
    assert_eq!(effects.count(), 1 + 2 + 3 + 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_when_the_last_handle_goes_is_stopped_and_taken_up_by_the_next_node() {
    let directory = tempfile::tempdir().unwrap();
    let (tenant, entered) = (Tenant::new("test").unwrap(), Effects::default());
    let store = Store::open_sqlite(directory.path()).unwrap();
    let counted = entered.clone();
    let hanging = waiting(
        "hanging",
        |it| it.facets.mutates = Some(Mutates::None),
        move |_, _| {
            counted.happen();
            std::future::pending()
        },
    );
    let haft = Haft::builder().tools([hanging]).start(store).unwrap();
    let session = haft.open(tenant, config(), user("owner")).await.unwrap();
    let call = haft.propose(session, "hanging", Map::new()).await.unwrap();
    while entered.count() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(haft);

    let store = opened(directory.path()).await.unwrap();
    let haft =
        Haft::builder().tools([echo(&Effects::default(), "hanging", |_| {})]).start(store).unwrap();
    let answer = tokio::time::timeout(PATIENCE, haft.wait(session, call)).await.unwrap().unwrap();
    assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
}
