//! The record of authority: what gives power cannot be put in, changed or taken out unseen.

use std::collections::BTreeMap;

use haft_core::journal::Head;
use haft_core::{Digest, SessionId};
use haft_store::{
    AuditReport, ErrorKind, Expected, Page, Place, Put, Store, Which, audit_postgres_against,
    audit_sqlite_against,
};

use crate::backing::{Backing, on_every_store};
use crate::driver::{START, Session, ann, charge};

async fn audit(backing: &Backing, seen: &BTreeMap<SessionId, Head>) -> AuditReport {
    match backing {
        Backing::Postgres(schema) => audit_postgres_against(schema.url(), seen).await.unwrap(),
        Backing::Sqlite(directory) => audit_sqlite_against(directory.path(), seen).unwrap(),
    }
}

fn grant(key: &str) -> Place {
    Place::new("acme".parse().unwrap(), "grants", key).unwrap()
}

async fn give(store: &Store, key: &str, body: &str) {
    let put = Put { place: grant(key), expected: Expected::Anything, body: Some(body.into()) };
    store.put_versions(vec![put], &ann(), START).await.unwrap();
}

/// Says what an audit found, in one text.
fn told(report: &AuditReport) -> String {
    let found = report.findings.iter();
    found.map(|it| format!("{}: {}\n", it.damage.as_str(), it.message)).collect()
}

/// Two grants, one of which was changed once, and a session that knows of them.
async fn filled(store: &Store) -> Head {
    give(store, "refund/1", "one").await;
    give(store, "refund/1", "two").await;
    give(store, "charge/1", "other").await;
    store.authority_head().await.unwrap()
}

#[test]
fn every_change_of_what_gives_power_is_recorded_and_the_rest_is_not() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        assert_eq!(store.authority_head().await.unwrap(), Head::EMPTY);
        let head = filled(&store).await;
        assert_eq!(head.seq, 3);
        let place = Place::new("acme".parse().unwrap(), "notes", "a").unwrap();
        let put = Put { place, expected: Expected::Absent, body: Some("x".into()) };
        store.put_versions(vec![put], &ann(), START).await.unwrap();
        assert_eq!(store.authority_head().await.unwrap(), head);
        let report = audit(&backing, &BTreeMap::new()).await;
        assert!(report.is_whole(), "{report:#?}");
        assert!(report.has_authority(head));
        let forged = Head { hash: Digest::of_bytes(b"x"), ..head };
        assert!(!report.has_authority(forged));
        assert!(!report.has_authority(Head { seq: 4, ..head }));
    });
}

/// Adds a version as somebody would who has the database and not this program.
const FORGED: &str = "INSERT INTO versions (tenant, space, key, number, digest, author, at)
    SELECT tenant, space, 'refund/9', 1, digest, author, at FROM versions
    WHERE space = 'grants' AND key = 'charge/1'";

#[test]
fn a_grant_that_nobody_gave_is_found_and_not_obeyed() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        filled(&store).await;
        drop(store);
        backing.tamper(FORGED).await;
        let report = audit(&backing, &BTreeMap::new()).await;
        assert!(told(&report).contains("not in the record of authority"), "{}", told(&report));
        assert!(!report.is_repairable());
        let store = backing.open().await;
        let read = store.version(&grant("refund/9"), Which::Latest).await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Corrupt);
        let good = store.version(&grant("refund/1"), Which::Latest).await.unwrap().unwrap();
        assert_eq!(good.body.as_deref(), Some(&b"two"[..]));
        let listed = store.keys(&"acme".parse().unwrap(), "grants", &Page::first(9)).await.unwrap();
        assert_eq!(listed.len(), 3, "it is listed, and cannot be read");
    });
}

// A revocation that is taken out does not bring back what it revoked.
#[test]
fn an_older_version_is_not_obeyed_when_the_latest_is_taken_out() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        filled(&store).await;
        let put = Put { place: grant("charge/1"), expected: Expected::Anything, body: None };
        store.put_versions(vec![put], &ann(), START).await.unwrap();
        drop(store);
        backing.tamper("DELETE FROM versions WHERE key = 'charge/1' AND number = 2").await;
        let store = backing.open().await;
        let read = store.version(&grant("charge/1"), Which::Latest).await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Corrupt);
        let first = store.version(&grant("charge/1"), Which::Number(1)).await.unwrap();
        assert!(first.is_some(), "what was is still told");
    });
}

#[test]
fn what_was_changed_or_taken_out_is_found() {
    let changes = [
        // An older grant in the place of a newer one.
        "UPDATE versions SET digest = (SELECT digest FROM versions WHERE key = 'refund/1'
           AND number = 1) WHERE key = 'refund/1' AND number = 2",
        "UPDATE versions SET author = '{\"kind\":\"user\",\"id\":\"eve\"}' WHERE key = 'charge/1'",
        "UPDATE versions SET at = at + 1 WHERE key = 'charge/1'",
        // A revocation that never was: the latest version is gone.
        "DELETE FROM versions WHERE key = 'refund/1' AND number = 2",
        "DELETE FROM authority WHERE number = 2",
        "UPDATE authority SET key = 'refund/7' WHERE number = 2",
    ];
    for sql in changes {
        on_every_store(async |backing| {
            let store = backing.open().await;
            filled(&store).await;
            drop(store);
            backing.tamper(sql).await;
            let report = audit(&backing, &BTreeMap::new()).await;
            assert!(told(&report).contains("authority: "), "{sql}: {}", told(&report));
            assert!(!report.is_repairable(), "{sql}");
        });
    }
}

#[test]
fn what_was_cut_off_along_with_its_record_is_found_by_a_checkpoint() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut session = Session::create(&store, "acme").await;
        session.propose(&charge()).await;
        let head = filled(&store).await;
        drop(store);
        let before = audit(&backing, &BTreeMap::new()).await;
        let seen: BTreeMap<_, _> = before.logs.iter().map(|log| (log.session, log.head)).collect();
        backing.tamper("DELETE FROM versions WHERE key = 'charge/1'").await;
        backing.tamper("DELETE FROM authority WHERE number = 3").await;
        let report = audit(&backing, &seen).await;
        assert!(report.is_whole(), "the rest of the chain is whole: {}", told(&report));
        assert!(!report.has_authority(head), "whoever has seen its end knows");
        // Also of a log: it may grow, and what was seen of it stays.
        let (id, end) = seen.iter().next().map(|(id, head)| (*id, *head)).unwrap();
        let other = Head { hash: Digest::of_bytes(b"x"), ..end };
        let longer = Head { seq: end.seq + 1, ..end };
        for (seen, why) in [
            ((id, other), "not the one that the checkpoint saw"),
            ((id, longer), "not the one that the checkpoint saw"),
            ((SessionId::from_bits(9), end), "is gone"),
        ] {
            let report = audit(&backing, &BTreeMap::from([seen])).await;
            assert!(told(&report).contains(why), "{}", told(&report));
        }
    });
}

#[test]
fn many_writers_keep_one_record() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let others = backing.beside(&store).await;
        let writes = (0..40).map(|n| {
            let store = if n % 2 == 0 { store.clone() } else { others.clone() };
            async move { give(&store, &format!("refund/{n}"), "body").await }
        });
        let mut tasks = tokio::task::JoinSet::new();
        writes.for_each(|write| drop(tasks.spawn(write)));
        tasks.join_all().await;
        assert_eq!(store.authority_head().await.unwrap().seq, 40);
        drop((store, others));
        let report = audit(&backing, &BTreeMap::new()).await;
        assert!(report.is_whole(), "{}", told(&report));
    });
}
