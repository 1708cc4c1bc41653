//! Content that goes for ever, and what stays of it.

use std::time::Duration;

use haft_core::{ArtifactId, ArtifactRef};
use haft_store::{
    Erased, Erasure, Expected, NewArtifact, Page, Place, Put, PutError, Store, Tenant, Which,
};

use crate::backing::{Directory, on_every_store, runtime};
use crate::driver::{START, ann, fresh, user};

/// How many contents are kept. SQLite's rows stay, empty.
const N_BLOBS: &str = "SELECT count(*) FROM blobs WHERE length(body) > 0";

fn place(key: &str) -> Place {
    Place::new(Tenant::new("acme").unwrap(), "memory", key).unwrap()
}

fn put(key: &str, body: &str) -> Put {
    let body = Some(body.as_bytes().to_vec());
    Put { place: place(key), expected: Expected::Anything, body }
}

async fn write(store: &Store, key: &str, body: &str) -> u64 {
    store.put_versions(vec![put(key, body)], &ann(), START).await.unwrap()[0]
}

async fn erase(store: &Store, key: &str, versions: Erased) {
    let erasures = vec![Erasure { place: place(key), versions }];
    assert_eq!(store.erase(erasures, Vec::new(), &user("bob"), START).await, Ok(Vec::new()));
}

async fn body(store: &Store, key: &str, number: u64) -> Option<String> {
    let version = store.version(&place(key), Which::Number(number)).await.unwrap().unwrap();
    version.body.map(|body| String::from_utf8(body).unwrap())
}

fn artifact() -> NewArtifact {
    let (id, media_type) = (ArtifactId::from_bits(fresh()), "text/plain".to_owned());
    let reference = ArtifactRef { id, media_type, bytes: 0, title: None };
    NewArtifact { reference, tenant: Tenant::new("acme").unwrap(), session: None, at: START }
}

async fn kept(store: &Store, artifact: &NewArtifact) -> String {
    let found = store.artifact(&artifact.tenant, artifact.reference.id).await.unwrap().unwrap();
    String::from_utf8(found.body).unwrap()
}

#[test]
fn an_erased_version_keeps_who_and_when_and_loses_its_content_for_ever() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        for content in ["one", "two", "three"] {
            write(&store, "a", content).await;
        }
        for _ in 0..2 {
            erase(&store, "a", Erased::Number(2)).await;
            let mut two = store.version(&place("a"), Which::Number(2)).await.unwrap().unwrap();
            assert_eq!((two.body.take(), two.info.digest), (None, None));
            assert_eq!((two.info.number, two.info.by, two.info.at), (2, ann(), START));
            assert_eq!(backing.count(N_BLOBS).await, 2);
        }
        assert_eq!(body(&store, "a", 1).await.as_deref(), Some("one"));
        let listed = store.versions(&place("a"), &Page::first(5)).await.unwrap();
        let shown: Vec<_> =
            listed.iter().map(|info| (info.number, info.digest.is_some())).collect();
        assert_eq!(shown, [(3, true), (2, false), (1, true)]);
        erase(&store, "a", Erased::Number(9)).await;
        erase(&store, "nowhere", Erased::Earlier).await;
        assert_eq!(backing.count(N_BLOBS).await, 2);
    });
}

#[test]
fn bytes_stay_for_as_long_as_anyone_else_has_the_same() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        for key in ["a", "a", "b"] {
            write(&store, key, "same").await;
        }
        let artifact = artifact();
        store.put_artifact(&artifact, b"same".to_vec()).await.unwrap();
        erase(&store, "a", Erased::Number(1)).await;
        assert_eq!(body(&store, "a", 1).await, None);
        assert_eq!(body(&store, "a", 2).await.as_deref(), Some("same"));
        erase(&store, "a", Erased::Number(2)).await;
        assert_eq!(body(&store, "b", 1).await.as_deref(), Some("same"));
        erase(&store, "b", Erased::Number(1)).await;
        assert_eq!(kept(&store, &artifact).await, "same");
        assert_eq!(backing.count(N_BLOBS).await, 1);
    });
}

#[test]
fn a_version_is_written_and_all_before_it_are_erased_in_one_step_or_not_at_all() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        for content in ["one", "two"] {
            write(&store, "a", content).await;
        }
        let erasures = vec![Erasure { place: place("a"), versions: Erased::Earlier }];
        let seen = |number| Put { expected: Expected::Version(number), ..put("a", "three") };
        let late = store.erase(erasures.clone(), vec![seen(1)], &ann(), START).await;
        assert_eq!(late, Err(PutError::Moved { place: place("a"), current: 2 }));
        assert_eq!(body(&store, "a", 1).await.as_deref(), Some("one"), "nothing was erased");
        let written = store.erase(erasures, vec![seen(2)], &ann(), START).await;
        assert_eq!(written, Ok(vec![3]));
        let found = [body(&store, "a", 1).await, body(&store, "a", 2).await];
        assert_eq!(found, [None, None]);
        assert_eq!(body(&store, "a", 3).await.as_deref(), Some("three"));
        assert_eq!(backing.count(N_BLOBS).await, 1);
    });
}

#[test]
fn a_place_whose_latest_version_was_erased_has_nothing_and_can_be_written_anew() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        write(&store, "a", "one").await;
        write(&store, "a", "two").await;
        erase(&store, "a", Erased::Number(2)).await;
        let latest = store.version(&place("a"), Which::Latest).await.unwrap().unwrap();
        assert_eq!((latest.info.number, latest.body), (2, None));
        let tenant = Tenant::new("acme").unwrap();
        assert_eq!(store.keys(&tenant, "memory", &Page::first(5)).await.unwrap(), []);
        let anew = Put { expected: Expected::Absent, ..put("a", "three") };
        assert_eq!(store.put_versions(vec![anew], &ann(), START).await, Ok(vec![3]));
    });
}

// Whoever writes bytes that are being erased elsewhere keeps what it wrote.
#[test]
fn a_writer_of_the_same_bytes_never_loses_them_to_one_who_erases() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let other = backing.beside(&store).await;
        for round in 0..30 {
            let same = format!("same {round}");
            let number = write(&store, "old", &same).await;
            let artifact = artifact();
            let (_, new, put) = tokio::join!(
                erase(&store, "old", Erased::Number(number)),
                write(&other, "new", &same),
                other.put_artifact(&artifact, same.clone().into_bytes()),
            );
            put.unwrap();
            assert_eq!(body(&store, "old", number).await, None);
            assert_eq!(body(&store, "new", new).await, Some(same.clone()));
            assert_eq!(kept(&store, &artifact).await, same);
        }
    });
}

// Neither may leave the bytes to the other.
#[test]
fn two_who_erase_the_last_two_references_leave_no_bytes() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let other = backing.beside(&store).await;
        for round in 0..30 {
            let same = format!("same {round}");
            let (a, b) = (write(&store, "a", &same).await, write(&store, "b", &same).await);
            tokio::join!(
                erase(&store, "a", Erased::Number(a)),
                erase(&other, "b", Erased::Number(b))
            );
            assert_eq!(backing.count(N_BLOBS).await, 0, "round {round}");
        }
    });
}

/// Whether any file of a store holds a text.
fn holds(directory: &Directory, text: &str) -> bool {
    let files = std::fs::read_dir(directory.path()).unwrap();
    files
        .map(|file| std::fs::read(file.unwrap().path()).unwrap())
        .any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
}

// Not even someone with the files reads what was erased, while the store is at work.
#[test]
fn what_was_erased_is_in_no_file_of_the_store() {
    runtime().block_on(async {
        let directory = Directory::new();
        let store = Store::open_sqlite(directory.path()).unwrap();
        let large = "CANARY-large ".repeat(3_000);
        let mut n_last = 0;
        // Among so much else that pages fill up, and are split and joined.
        for round in 0..40 {
            write(&store, "other", &format!("{round} {}", "x".repeat(round * 200))).await;
            write(&store, "small", &format!("CANARY-small {round}")).await;
            n_last = write(&store, "large", &format!("{large}{round}")).await;
        }
        assert!(holds(&directory, "CANARY-small 39") && holds(&directory, "CANARY-large "));
        erase(&store, "small", Erased::Earlier).await;
        for number in 1..=n_last {
            erase(&store, "large", Erased::Number(number)).await;
        }
        assert!(!holds(&directory, "CANARY-large"));
        assert!(!holds(&directory, "CANARY-small 0") && !holds(&directory, "CANARY-small 38"));
        assert_eq!(body(&store, "small", n_last).await.as_deref(), Some("CANARY-small 39"));
        assert_eq!(body(&store, "other", 1).await.as_deref(), Some("0 "));
        write(&store, "small", "more").await;
    });
}

// Who reads for long, as a backup does, keeps the log; what was erased leaves it when they are done.
#[test]
#[expect(clippy::disallowed_methods, reason = "somebody else's connection")]
fn what_was_erased_while_somebody_read_leaves_the_log_when_they_are_done() {
    runtime().block_on(async {
        let directory = Directory::new();
        let store = Store::open_sqlite(directory.path()).unwrap();
        let number = write(&store, "a", "CANARY").await;
        let outside = rusqlite::Connection::open(directory.database()).unwrap();
        outside.execute_batch("BEGIN; SELECT count(*) FROM versions").unwrap();
        erase(&store, "a", Erased::Number(number)).await;
        write(&store, "b", "more").await;
        assert!(holds(&directory, "CANARY"), "the reader may still need it");
        outside.execute_batch("COMMIT").unwrap();
        let began = std::time::Instant::now();
        while began.elapsed() < crate::outage::PATIENCE {
            if !holds(&directory, "CANARY") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it is still there");
    });
}
