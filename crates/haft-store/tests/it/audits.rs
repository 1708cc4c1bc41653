//! An audit of the whole store, and a repair of what follows from its logs.

use std::collections::BTreeSet;

use haft_core::session::Input;
use haft_store::{
    AuditReport, CallStage, Damage, Expected, LossPolicy, Page, PendingFilter, Place, Put,
    RepairError, RepairReport, Store, audit_postgres, audit_sqlite, repair_postgres, repair_sqlite,
};

use crate::backing::{Backing, Directory, on_every_store, runtime};
use crate::driver::{START, Session, ann, approval, busy, charge, ok, read};
use crate::work::flaky;

async fn audit(backing: &Backing) -> AuditReport {
    match backing {
        Backing::Postgres(schema) => audit_postgres(schema.url()).await.unwrap(),
        Backing::Sqlite(directory) => audit_sqlite(directory.path()).unwrap(),
    }
}

async fn repair(backing: &Backing) -> Result<RepairReport, RepairError> {
    match backing {
        Backing::Postgres(schema) => repair_postgres(schema.url()).await,
        Backing::Sqlite(directory) => repair_sqlite(directory.path(), LossPolicy::Refuse),
    }
}

fn put(key: &str, body: &str) -> Put {
    let tenant = "acme".parse().unwrap();
    let place = Place::new(tenant, "notes", key).unwrap();
    Put { place, expected: Expected::Anything, body: Some(body.into()) }
}

/// Sessions of two tenants: one with a call that waits, one with calls that are over, one with a
/// call that is to be tried again and a snapshot.
async fn fill(store: &Store) {
    let mut waiting = Session::create(store, "acme").await;
    waiting.propose(&charge()).await;
    let mut over = Session::create(store, "globex").await;
    let call = over.propose(&charge()).await;
    over.input_anywhere(approval(call, ann())).await.unwrap();
    over.input(Input::Woken).await.unwrap();
    over.finish(call, ok("charged")).await;
    let mut again = Session::create(store, "acme").await;
    let call = again.propose(&flaky()).await;
    again.finish(call, busy()).await;
    again.keep_snapshot().await;
    for body in ["one", "two"] {
        store.put_versions(vec![put("first", body)], &ann(), START).await.unwrap();
    }
}

fn damages(report: &AuditReport) -> BTreeSet<&'static str> {
    report.findings.iter().map(|finding| finding.damage.as_str()).collect()
}

// E6: sessions of every tenant, and everything beside them.
#[test]
fn an_audit_covers_every_tenant_and_finds_nothing_wrong_with_what_was_written() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        fill(&store).await;
        let report = audit(&backing).await;
        assert!(report.is_whole(), "{report:#?}");
        assert_eq!((report.sessions, report.logs.len()), (3, 3));
        assert_eq!((report.calls, report.versions), (3, 2));
        drop(store);
        assert_eq!(audit(&backing).await, report, "with nobody at work it is the same");
        assert_eq!(repair(&backing).await.unwrap().changes, [], "there is nothing to repair");
    });
}

// E5: rows that were removed or changed were noticed by nobody, and nothing made them anew.
#[test]
fn rows_that_do_not_follow_from_the_logs_are_found_and_made_anew() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        fill(&store).await;
        let (filter, page) = (PendingFilter::default(), Page::first(10));
        let waits = store.pending(&filter, &page).await.unwrap();
        assert_eq!(waits.len(), 1);
        let due = store.next_due().await.unwrap();
        drop(store);
        let removals: &[&str] = match &backing {
            Backing::Sqlite(_) => &["DELETE FROM calls"],
            Backing::Postgres(_) => {
                &["DELETE FROM calls", "DELETE FROM waits", "DELETE FROM timers"]
            }
        };
        let changes = [
            "UPDATE calls SET stage = 'ready'",
            "UPDATE sessions SET status = 'ended'",
            "UPDATE snapshots SET seq = seq - 1",
        ];
        for sql in removals.iter().chain(&changes) {
            backing.tamper(sql).await;
            let report = audit(&backing).await;
            assert_eq!(damages(&report), BTreeSet::from(["derived"]), "{sql}: {report:#?}");
            assert!(report.is_repairable());
            assert_eq!(report.logs.len(), 3, "the logs are whole");
            let repaired = repair(&backing).await.unwrap();
            assert_eq!(repaired.changes.len(), report.findings.len(), "{sql}: {repaired:#?}");
            let report = audit(&backing).await;
            assert!(report.is_whole(), "{sql}: {report:#?}");
        }
        let store = backing.open().await;
        assert_eq!(store.pending(&filter, &page).await.unwrap(), waits);
        assert_eq!(store.next_due().await.unwrap(), due);
        let (session, call) = (waits[0].session, waits[0].call);
        let known = store.call(session, call).await.unwrap().unwrap();
        assert_eq!(known.stage, CallStage::Waiting);
    });
}

#[test]
fn a_log_that_is_broken_is_found_and_nothing_is_repaired() {
    let breaks = [
        "UPDATE events SET body = replace(body, 'charge_card', 'charge_care')",
        "DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)",
        "DELETE FROM sessions WHERE tenant = 'globex'",
    ];
    for sql in breaks {
        on_every_store(async |backing| {
            let store = backing.open().await;
            fill(&store).await;
            drop(store);
            backing.tamper(sql).await;
            backing.tamper("UPDATE sessions SET status = 'ended'").await;
            let report = audit(&backing).await;
            assert!(damages(&report).contains("log"), "{sql}: {report:#?}");
            assert!(!report.is_repairable());
            let refused = repair(&backing).await.unwrap_err();
            assert!(matches!(&refused, RepairError::Broken(found) if !found.is_repairable()));
            let n = backing.count("SELECT count(*) FROM sessions WHERE status = 'ended'").await;
            assert!(n > 0, "{sql}: nothing is changed");
        });
    }
}

#[test]
fn content_that_does_not_match_its_hash_and_versions_that_are_missing_are_found() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        fill(&store).await;
        drop(store);
        backing.tamper("DELETE FROM versions WHERE number = 1").await;
        let report = audit(&backing).await;
        assert_eq!(report.findings[0].damage, Damage::Content, "{report:#?}");
        assert!(report.findings[0].message.contains("`first` in `notes` of `acme`"), "{report:?}");
        backing.tamper_blobs().await;
        let report = audit(&backing).await;
        let is_wrong = |message: &str| message.contains("does not match its hash");
        assert!(report.findings.iter().any(|finding| is_wrong(&finding.message)), "{report:#?}");
        assert!(repair(&backing).await.is_err());
    });
}

/// Takes every entry out of an index behind SQLite's back, as a flipped bit may: what is looked up
/// by it is not there any more.
#[expect(clippy::disallowed_methods, reason = "goes around the store on purpose")]
fn empty_index(directory: &Directory, index: &str) {
    let connection = rusqlite::Connection::open(directory.database()).unwrap();
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let page: u32 = connection.query_row(sql, [index], |row| row.get(0)).unwrap();
    let size: u32 = connection.pragma_query_value(None, "page_size", |row| row.get(0)).unwrap();
    drop(connection);
    let mut bytes = std::fs::read(directory.database()).unwrap();
    // The number of cells of a page stands in its fourth and fifth byte.
    let page = ((page - 1) * size) as usize;
    bytes[page + 3..page + 5].fill(0);
    std::fs::write(directory.database(), bytes).unwrap();
}

// E5: one flipped bit made a waiting approval vanish unnoticed.
#[test]
fn an_index_that_hides_sessions_and_waits_is_found_and_built_anew() {
    runtime().block_on(async {
        let directory = Directory::new();
        let store = Store::open_sqlite(directory.path()).unwrap();
        fill(&store).await;
        drop(store);
        for index in ["sessions_by_tenant", "waits_by_deadline"] {
            empty_index(&directory, index);
            let report = audit_sqlite(directory.path()).unwrap();
            assert!(!report.is_whole(), "{index}");
            assert_eq!(report.sessions, 3, "{index}: none is hidden");
            repair_sqlite(directory.path(), LossPolicy::Refuse).unwrap();
            let report = audit_sqlite(directory.path()).unwrap();
            assert!(report.is_whole(), "{index}: {report:#?}");
        }
        let store = Store::open_sqlite(directory.path()).unwrap();
        let page = Page::first(10);
        assert_eq!(store.pending(&PendingFilter::default(), &page).await.unwrap().len(), 1);
    });
}

#[test]
fn a_session_that_goes_on_beside_an_audit_is_no_finding() {
    on_every_store(async |backing| {
        let store = backing.open().await;
        let mut session = Session::create(&store, "acme").await;
        for _ in 0..20 {
            let call = session.propose(&read()).await;
            assert!(audit(&backing).await.is_whole());
            session.finish(call, ok("sunny")).await;
        }
    });
}
