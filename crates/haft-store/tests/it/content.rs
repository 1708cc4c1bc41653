//! Artifacts, versions and search.

use haft_core::{ArtifactId, ArtifactRef, Digest};
use haft_store::{
    ArtifactError, Document, ErrorKind, Expected, NewArtifact, Page, Place, Put, PutError, Query,
    Tenant, Which,
};

use crate::backing::on_every_store;
use crate::driver::{START, ann, fresh, user};

fn tenant(name: &str) -> Tenant {
    Tenant::new(name).unwrap()
}

fn place(key: &str) -> Place {
    Place::new(tenant("acme"), "memory", key).unwrap()
}

fn put(key: &str, expected: Expected, body: &str) -> Put {
    Put { place: place(key), expected, body: Some(body.as_bytes().to_vec()) }
}

fn artifact(tenant_name: &str) -> NewArtifact {
    let id = ArtifactId::from_bits(fresh());
    let media_type = "text/plain".to_owned();
    let reference = ArtifactRef { id, media_type, bytes: 5, title: Some("greeting".to_owned()) };
    NewArtifact { reference, tenant: tenant(tenant_name), session: None, at: START }
}

#[test]
fn an_artifact_is_kept_by_content_and_read_by_its_tenant_only() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let (one, two) = (artifact("acme"), artifact("umbrella"));
        let digest = store.put_artifact(&one, b"hello".to_vec()).await.unwrap();
        assert_eq!(digest, Digest::of_bytes(b"hello"));
        assert_eq!(store.put_artifact(&two, b"hello".to_vec()).await, Ok(digest));
        assert_eq!(store.put_artifact(&one, b"hello".to_vec()).await, Ok(digest), "again");
        let id = one.reference.id;
        let taken = store.put_artifact(&one, b"other".to_vec()).await;
        assert_eq!(taken, Err(ArtifactError::Taken { id }));

        let read = store.artifact(&tenant("acme"), id).await.unwrap().unwrap();
        assert_eq!((read.reference, read.body), (one.reference, b"hello".to_vec()));
        assert_eq!(store.artifact(&tenant("umbrella"), id).await.unwrap(), None);
    });
}

#[test]
fn an_artifact_that_was_changed_behind_the_stores_back_is_not_served() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let new = artifact("acme");
        store.put_artifact(&new, b"hello".to_vec()).await.unwrap();
        backing.tamper_blobs().await;
        let error = store.artifact(&tenant("acme"), new.reference.id).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("does not match its hash"), "{error}");
    });
}

// D27: check and write are one step, whoever else writes.
#[test]
fn d27_no_update_is_lost_under_contention() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let other = backing.beside(&store).await;
        let mut writers = Vec::new();
        for writer in 0..8 {
            let store = if writer % 2 == 0 { store.clone() } else { other.clone() };
            writers.push(tokio::spawn(async move {
                for _ in 0..5 {
                    add_one(&store).await;
                }
            }));
        }
        for writer in writers {
            writer.await.unwrap();
        }
        let last = store.version(&place("count"), Which::Latest).await.unwrap().unwrap();
        assert_eq!((last.info.number, last.body.as_deref()), (40, Some(&b"40"[..])));
    });
}

async fn add_one(store: &haft_store::Store) {
    for _ in 0..1_000 {
        let seen = store.version(&place("count"), Which::Latest).await.unwrap();
        let (expected, count) = match seen {
            Some(seen) => {
                let body = String::from_utf8(seen.body.unwrap()).unwrap();
                (Expected::Version(seen.info.number), body.parse().unwrap())
            }
            None => (Expected::Absent, 0u32),
        };
        let puts = vec![put("count", expected, &(count + 1).to_string())];
        match store.put_versions(puts, &ann(), START).await {
            Ok(_) => return,
            Err(PutError::Moved { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("beaten a thousand times")
}

// D13: a writer that goes away in the middle leaves nothing that blocks the next, or half of it.
#[test]
fn d13_a_writer_that_goes_away_leaves_no_half_and_blocks_nobody() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        for round in 0..20 {
            let writing = store.clone();
            let task = tokio::spawn(async move {
                let puts = vec![
                    put("a", Expected::Anything, &format!("{round}")),
                    put("b", Expected::Anything, &format!("{round}")),
                ];
                writing.put_versions(puts, &user("gone"), START).await
            });
            tokio::task::yield_now().await;
            task.abort();
            drop(task.await);
        }
        let both = vec![put("a", Expected::Anything, "last"), put("b", Expected::Anything, "last")];
        store.put_versions(both, &ann(), START).await.unwrap();
        let a = store.version(&place("a"), Which::Latest).await.unwrap().unwrap();
        let b = store.version(&place("b"), Which::Latest).await.unwrap().unwrap();
        assert_eq!((a.info.number, &a.body), (b.info.number, &b.body), "all or none");
    });
}

#[test]
fn versions_are_immutable_listed_and_can_say_that_something_is_gone() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let one = store.put_versions(vec![put("a", Expected::Absent, "1")], &ann(), START).await;
        assert_eq!(one, Ok(vec![1]));
        let again = store.put_versions(vec![put("a", Expected::Absent, "2")], &ann(), START).await;
        assert_eq!(again, Err(PutError::Moved { place: place("a"), current: 1 }));
        let torn = vec![put("b", Expected::Absent, "x"), put("a", Expected::Version(7), "y")];
        assert!(store.put_versions(torn, &ann(), START).await.is_err());
        assert_eq!(store.version(&place("b"), Which::Latest).await.unwrap(), None, "none of it");

        let gone = Put { place: place("a"), expected: Expected::Version(1), body: None };
        assert_eq!(store.put_versions(vec![gone], &user("bob"), START).await, Ok(vec![2]));
        let three = put("a", Expected::Absent, "3");
        assert_eq!(store.put_versions(vec![three], &ann(), START).await, Ok(vec![3]));
        store.put_versions(vec![put("c", Expected::Absent, "1")], &ann(), START).await.unwrap();

        let first = store.version(&place("a"), Which::Number(1)).await.unwrap().unwrap();
        assert_eq!(first.body.as_deref(), Some(&b"1"[..]));
        let listed = store.versions(&place("a"), &Page::first(2)).await.unwrap();
        let shown: Vec<_> =
            listed.iter().map(|info| (info.number, info.digest.is_some())).collect();
        assert_eq!(shown, [(3, true), (2, false)]);
        assert_eq!(listed[1].by, user("bob"));
        let rest = store.versions(&place("a"), &Page::after(2, 2)).await.unwrap();
        assert_eq!(rest.len(), 1);
        let keys = store.keys(&tenant("acme"), "memory", &Page::first(1)).await.unwrap();
        assert_eq!(keys[0].0, "a");
        let page = Page::after("a".to_owned(), 5);
        let keys = store.keys(&tenant("acme"), "memory", &page).await.unwrap();
        assert_eq!(keys.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["c"]);
        assert_eq!(store.keys(&tenant("umbrella"), "memory", &page).await.unwrap(), []);
    });
}

fn document(key: &str, title: &str, body: &str) -> Document {
    Document { place: place(key), title: title.into(), body: body.into(), at: START }
}

fn query(words: &str) -> Query {
    Query { tenant: tenant("acme"), space: None, words: words.into(), limit: 10 }
}

#[test]
fn documents_are_found_by_all_of_their_words_and_only_as_they_stand() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let found = async |words: &str| {
            let hits = store.search(&query(words)).await.unwrap();
            hits.into_iter().map(|hit| hit.place.key().to_owned()).collect::<Vec<_>>()
        };
        for document in [
            document("deploy", "How to deploy", "Run the release script, then watch the graphs."),
            document("graphs", "Reading graphs", "The release graph shows errors per minute."),
            document("nul", "Odd", "a\0b"),
        ] {
            store.index(&document).await.unwrap();
        }
        assert_eq!(found("Release graphs").await, ["graphs", "deploy"], "a title counts for more");
        assert_eq!(found("release SCRIPT").await, ["deploy"]);
        assert_eq!(found("release kitchen").await, [""; 0]);
        assert_eq!(found("\"unbalanced AND ( NOT -").await, [""; 0]);
        assert_eq!(found("").await, [""; 0]);
        let hits = store.search(&query("script")).await.unwrap();
        assert!(hits[0].snippet.contains("script"), "{hits:?}");

        store.index(&document("deploy", "How to deploy", "Ask Bob.")).await.unwrap();
        assert_eq!(found("script").await, [""; 0]);
        assert_eq!(found("bob").await, ["deploy"]);
        store.unindex(&place("deploy")).await.unwrap();
        assert_eq!(found("bob").await, [""; 0]);
        let foreign = Query { tenant: tenant("umbrella"), ..query("release") };
        assert_eq!(store.search(&foreign).await.unwrap(), []);
        let elsewhere = Query { space: Some("skills".into()), ..query("release") };
        assert_eq!(store.search(&elsewhere).await.unwrap(), []);
    });
}
