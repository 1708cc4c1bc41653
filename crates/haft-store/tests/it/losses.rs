//! Files that go missing, are cut, replaced or damaged: noticed when the store is opened, while it
//! is in use, or by an audit.

use std::path::Path;

use haft_store::{AppendError, Damage, ErrorKind, LossPolicy, Store, audit_sqlite, repair_sqlite};

use crate::backing::{Directory, runtime};
use crate::driver::{Failed, Session, proposal, read};

#[track_caller]
fn lost(directory: &Directory, says: &str) {
    let error = Store::open_sqlite(directory.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert!(error.to_string().contains(says), "{error}");
    assert!(error.hint().contains("haft repair --accept-loss"), "{}", error.hint());
}

/// Copies the files of a store as a killed process leaves them.
fn as_killed(of: &Directory) -> Directory {
    let copy = Directory::new();
    for name in ["haft.db", "haft.db-wal", "haft.mark"] {
        std::fs::copy(of.path().join(name), copy.path().join(name)).unwrap();
    }
    copy
}

fn remove(directory: &Path, name: &str) {
    std::fs::remove_file(directory.join(name)).unwrap();
}

/// A store in use with an acknowledged session, and the files that a kill would leave.
async fn killed() -> (Directory, Session) {
    let directory = Directory::new();
    let store = Store::open_sqlite(directory.path()).unwrap();
    let mut session = Session::create(&store, "acme").await;
    session.propose(&read()).await;
    (as_killed(&directory), session)
}

// E5
#[test]
fn a_database_that_is_gone_or_empty_is_not_taken_for_a_new_one() {
    let directory = Directory::new();
    drop(Store::open_sqlite(directory.path()).unwrap());
    let database = std::fs::read(directory.database()).unwrap();
    remove(directory.path(), "haft.db");
    lost(&directory, "is missing");
    assert!(!directory.database().exists(), "nothing is made");
    std::fs::write(directory.database(), "").unwrap();
    lost(&directory, "is empty");
    std::fs::write(directory.database(), database).unwrap();
    Store::open_sqlite(directory.path()).unwrap();
}

#[test]
fn a_log_of_changes_without_its_database_is_not_thrown_away() {
    runtime().block_on(async {
        let (directory, _session) = killed().await;
        let log = std::fs::read(directory.path().join("haft.db-wal")).unwrap();
        remove(directory.path(), "haft.mark");
        remove(directory.path(), "haft.db");
        lost(&directory, "haft.db-wal");
        assert_eq!(std::fs::read(directory.path().join("haft.db-wal")).unwrap(), log);
    });
}

#[test]
fn what_a_killed_process_acknowledged_is_found_again() {
    runtime().block_on(async {
        let (directory, session) = killed().await;
        let store = Store::open_sqlite(directory.path()).unwrap();
        assert_eq!(store.verify(session.id).await, Ok(session.head));
    });
}

// E5: acknowledged sessions were gone, and the audit called the rest whole.
#[test]
fn a_log_of_changes_that_was_removed_after_a_kill_is_noticed() {
    runtime().block_on(async {
        let (directory, session) = killed().await;
        remove(directory.path(), "haft.db-wal");
        lost(&directory, "writes that were acknowledged are missing");
        lost(&directory, "writes that were acknowledged are missing");
        let report = audit_sqlite(directory.path()).unwrap();
        assert_eq!(report.findings[0].damage, Damage::Log, "{report:?}");

        let report = repair_sqlite(directory.path(), LossPolicy::Accept).unwrap();
        assert!(report.changes[0].message.starts_with("accepted: "), "{report:?}");
        let store = Store::open_sqlite(directory.path()).unwrap();
        assert!(store.load(session.id).await.unwrap().is_none(), "it is gone, as was accepted");
    });
}

#[test]
fn a_log_of_changes_that_was_cut_or_damaged_is_noticed() {
    runtime().block_on(async {
        let (directory, _session) = killed().await;
        let log = directory.path().join("haft.db-wal");
        let whole = std::fs::read(&log).unwrap();
        let mut damaged = whole.clone();
        let at = damaged.len() - 2_000;
        damaged[at] ^= 1;
        std::fs::write(&log, &damaged).unwrap();
        lost(&directory, "writes that were acknowledged are missing");
        assert_eq!(std::fs::read(&log).unwrap(), damaged, "what is left is left alone");
        std::fs::write(&log, &whole[..whole.len() - 100]).unwrap();
        lost(&directory, "writes that were acknowledged are missing");
    });
}

#[test]
fn an_older_copy_and_another_store_are_noticed() {
    runtime().block_on(async {
        let directory = Directory::new();
        drop(Store::open_sqlite(directory.path()).unwrap());
        let older = std::fs::read(directory.database()).unwrap();
        let store = Store::open_sqlite(directory.path()).unwrap();
        Session::create(&store, "acme").await;
        drop(store);
        std::fs::write(directory.database(), older).unwrap();
        lost(&directory, "writes that were acknowledged are missing");

        let other = Directory::new();
        drop(Store::open_sqlite(other.path()).unwrap());
        std::fs::copy(other.database(), directory.database()).unwrap();
        lost(&directory, "another store");
    });
}

/// Appends once more, which the store must refuse for good.
async fn require_stopped(session: &mut Session) {
    let (_, input) = proposal(&read());
    let refused = session.input(input).await;
    let Err(Failed::Append(AppendError::Store(error))) = refused else {
        panic!("it was acknowledged: {refused:?}")
    };
    assert_eq!(error.kind(), ErrorKind::Stopped, "{error}");
    let stopped = session.store.stopped().expect("the store says that only a restart helps");
    assert!(stopped.to_string().contains("removed or replaced"), "{stopped}");
    assert_eq!(session.store.until_stopped().await, stopped);
    assert!(session.store.check_writable().await.is_err());
}

// E5: acknowledgements went on, and all of them were lost.
#[test]
fn files_that_are_removed_or_replaced_under_an_open_store_stop_it() {
    runtime().block_on(async {
        for name in ["haft.db", "haft.db-wal"] {
            let directory = Directory::new();
            let store = Store::open_sqlite(directory.path()).unwrap();
            let mut session = Session::create(&store, "acme").await;
            assert_eq!(store.stopped(), None);
            remove(directory.path(), name);
            require_stopped(&mut session).await;
        }
        let directory = Directory::new();
        let store = Store::open_sqlite(directory.path()).unwrap();
        let mut session = Session::create(&store, "acme").await;
        let copy = directory.path().join("copy");
        std::fs::copy(directory.database(), &copy).unwrap();
        std::fs::rename(&copy, directory.database()).unwrap();
        require_stopped(&mut session).await;
    });
}

// E11
#[test]
fn the_lock_is_on_the_database_and_not_on_a_file_beside_it() {
    let directory = Directory::new();
    let store = Store::open_sqlite(directory.path()).unwrap();
    remove(directory.path(), "haft.lock");
    let error = Store::open_sqlite(directory.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InUse, "{error}");
    assert!(haft_store::is_in_use(directory.path()).unwrap());
    // Whoever looked has not taken SQLite's own locks away.
    runtime().block_on(async { Session::create(&store, "acme").await });
    drop(store);
    Store::open_sqlite(directory.path()).unwrap();
}
