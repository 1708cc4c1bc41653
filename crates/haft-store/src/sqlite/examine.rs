//! Looks at a database file without changing it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use rusqlite::{Connection, OpenFlags, ffi};

use super::connection::{BUSY_WAIT, database_error, recognise, schema_known};
use super::work::standing;
use crate::error::{Error, ErrorKind};
use crate::examine::{SqliteCheck, SqliteReport, is_in_use};

/// How many instructions of SQLite go by between two looks at the clock.
const LOOK_EVERY: i32 = 10_000;

/// How many findings of a damaged file are told.
const FINDINGS_MAX: u32 = 10;

/// What has a meaning of its own in a file's URI.
const RESERVED: &AsciiSet = &CONTROLS.add(b'%').add(b'?').add(b'#').add(b' ');

pub(crate) fn examine(directory: &Path, limit: Duration) -> Result<SqliteReport, Error> {
    let path = directory.join("haft.db");
    if !path.exists() {
        let context = format!("there is no `{}`", path.display());
        return Err(Error::new(ErrorKind::WrongFile, context));
    }
    let before = changed_at(&path);
    let report = look(directory, &path, limit)?;
    // A process that began to write meanwhile makes a file that was read as a still one look
    // damaged.
    match report.check {
        SqliteCheck::Damaged { .. } if changed_at(&path) != before => look(directory, &path, limit),
        _ => Ok(report),
    }
}

fn look(directory: &Path, path: &Path, limit: Duration) -> Result<SqliteReport, Error> {
    let mut connection = open(directory, path)?;
    recognise(&connection, path)?;
    let during = |error: rusqlite::Error| database_error(&error);
    let version = connection.pragma_query_value(None, "user_version", |row| row.get(0));
    let schema: u32 = version.map_err(during)?;
    let check = check(&mut connection, limit)?;
    let is_readable = check == SqliteCheck::Whole && schema == schema_known();
    let standing = match is_readable {
        true => Some(standing(&connection).map_err(Error::from)?),
        false => None,
    };
    let bytes = size(path) + size(&directory.join("haft.db-wal"));
    Ok(SqliteReport { schema, schema_known: schema_known(), bytes, check, standing })
}

/// Opens the file to be read. Where nobody uses it and nothing waits in a write-ahead log, SQLite
/// is told that the file does not change, because it would make files beside it otherwise.
pub(super) fn open(directory: &Path, path: &Path) -> Result<Connection, Error> {
    let is_still = size(&with_ending(path, "-wal")) == 0 && !is_in_use(directory).unwrap_or(true);
    let name = percent_encode(path.as_os_str().as_encoded_bytes(), RESERVED);
    let options = if is_still { "immutable=1" } else { "mode=ro" };
    let uri = format!("file:{name}?{options}");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(uri, flags).and_then(|connection| {
        connection.busy_timeout(BUSY_WAIT)?;
        Ok(connection)
    });
    opened.map_err(|error| database_error(&error).during(&path.display().to_string()))
}

fn check(connection: &mut Connection, limit: Duration) -> Result<SqliteCheck, Error> {
    let deadline = Instant::now() + limit;
    connection
        .progress_handler(LOOK_EVERY, Some(move || Instant::now() >= deadline))
        .map_err(|error| database_error(&error))?;
    let found = findings(connection);
    connection.progress_handler(0, None::<fn() -> bool>).map_err(|error| database_error(&error))?;
    let code = |error: &rusqlite::Error| error.sqlite_error().map(|it| it.extended_code & 0xff);
    match found {
        Ok(findings) if findings == ["ok"] => Ok(SqliteCheck::Whole),
        Ok(findings) => Ok(SqliteCheck::Damaged { findings }),
        Err(error) if code(&error) == Some(ffi::SQLITE_INTERRUPT) => Ok(SqliteCheck::CutOff),
        Err(error) if code(&error) == Some(ffi::SQLITE_CORRUPT) => {
            Ok(SqliteCheck::Damaged { findings: vec![error.to_string()] })
        }
        Err(error) => Err(database_error(&error)),
    }
}

fn findings(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = format!("PRAGMA quick_check({FINDINGS_MAX})");
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map([], |row| row.get(0))?;
    rows.collect()
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

fn changed_at(path: &Path) -> (Option<std::time::SystemTime>, u64) {
    let at = fs::metadata(path).and_then(|found| found.modified()).ok();
    (at, size(&with_ending(path, "-wal")))
}
