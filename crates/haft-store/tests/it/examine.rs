//! Looking at an embedded store without touching it.

use std::collections::BTreeMap;
use std::time::Duration;

use haft_store::{ErrorKind, SqliteCheck, Store, examine_sqlite, is_in_use};

use crate::backing::{Directory, tamper_sqlite};

const LIMIT: Duration = Duration::from_secs(600);

fn files(directory: &Directory) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.display().to_string(), std::fs::read(path).unwrap())).collect()
}

/// Overwrites the first page of an index behind SQLite's back.
#[expect(clippy::disallowed_methods, reason = "goes around the store on purpose")]
fn damage(directory: &Directory) {
    let connection = rusqlite::Connection::open(directory.database()).unwrap();
    let sql = "SELECT max(rootpage) FROM sqlite_schema WHERE type = 'index'";
    let page: u32 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    let size: u32 = connection.pragma_query_value(None, "page_size", |row| row.get(0)).unwrap();
    drop(connection);
    let (page, size) = (page as usize, size as usize);
    let mut bytes = std::fs::read(directory.database()).unwrap();
    bytes[(page - 1) * size..page * size].fill(0xa5);
    std::fs::write(directory.database(), bytes).unwrap();
}

#[test]
fn a_store_at_rest_is_whole_and_left_as_it_is() {
    let directory = Directory::new();
    assert_eq!(
        examine_sqlite(directory.path(), LIMIT).unwrap_err().kind(),
        ErrorKind::WrongFile,
        "there is none, and none is made"
    );
    assert!(files(&directory).is_empty());
    drop(Store::open_sqlite(directory.path()).unwrap());
    let before = files(&directory);
    let report = examine_sqlite(directory.path(), LIMIT).unwrap();
    assert_eq!(report.check, SqliteCheck::Whole);
    assert_eq!(report.schema, report.schema_known);
    assert!(report.standing.unwrap().waiting.is_empty());
    assert!(!is_in_use(directory.path()).unwrap());
    assert_eq!(files(&directory), before);
}

#[test]
fn a_store_that_someone_has_is_looked_at_beside_them() {
    let directory = Directory::new();
    let store = Store::open_sqlite(directory.path()).unwrap();
    assert!(is_in_use(directory.path()).unwrap());
    assert_eq!(examine_sqlite(directory.path(), LIMIT).unwrap().check, SqliteCheck::Whole);
    drop(store);
    assert!(!is_in_use(directory.path()).unwrap());
}

#[test]
fn a_damaged_page_is_found_and_the_file_left_as_it_is() {
    let directory = Directory::new();
    drop(Store::open_sqlite(directory.path()).unwrap());
    damage(&directory);
    let before = files(&directory);
    let report = examine_sqlite(directory.path(), LIMIT).unwrap();
    assert!(matches!(report.check, SqliteCheck::Damaged { .. }), "{report:?}");
    assert_eq!(report.standing, None);
    assert_eq!(files(&directory), before);
}

#[test]
fn a_store_of_a_newer_haft_is_told_as_one() {
    let directory = Directory::new();
    drop(Store::open_sqlite(directory.path()).unwrap());
    tamper_sqlite(&directory, "PRAGMA user_version = 99");
    let error = examine_sqlite(directory.path(), LIMIT).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NewerSchema, "{error}");
}
