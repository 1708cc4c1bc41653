//! Opening the file: the same settings for every connection, and every way in which the file can
//! be the wrong one.

use std::path::Path;
use std::time::Duration;

use haft_core::SessionId;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, ffi, params};

use super::authority;
use super::journal::Log;
use super::{Fault, mark};
use crate::error::{Error, ErrorKind};
use crate::key::id_bits;
use crate::rows::opener;

/// `HAFT` in ASCII, at a fixed place in the file's header.
const APPLICATION_ID: i64 = 0x4841_4654;

/// The schema, one file per version; the file's `user_version` says how many have been applied.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/1.sql"),
    include_str!("migrations/2.sql"),
    include_str!("migrations/3.sql"),
    include_str!("migrations/4.sql"),
    include_str!("migrations/5.sql"),
    include_str!("migrations/6.sql"),
    include_str!("migrations/7.sql"),
    include_str!("migrations/8.sql"),
    include_str!("migrations/9.sql"),
    include_str!("migrations/11.sql"),
];

/// How long someone else's lock on the file (a backup, a curious person's shell) is waited for.
pub(super) const BUSY_WAIT: Duration = Duration::from_secs(5);

/// Opens the connection that writes, and brings the schema up to date.
pub(crate) fn writer(path: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let during =
        |error: rusqlite::Error| database_error(&error).during(&path.display().to_string());
    let mut connection = Connection::open_with_flags(path, flags).map_err(during)?;
    recognise(&connection, path)?;
    connection.busy_timeout(BUSY_WAIT).map_err(during)?;
    // A log of changes that is found wanting is left as it is: closing would take it away.
    let keep_log = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    connection.set_db_config(keep_log, true).map_err(during)?;
    mark::require_whole(&connection, path)?;
    connection.set_db_config(keep_log, false).map_err(during)?;
    // Checkpoints are made beside the writer. What a page does not hold any more is overwritten, and
    // so are pages that become free, so that erasing finds no second copy left behind.
    let settings = "
        PRAGMA journal_mode = WAL;
        PRAGMA synchronous = FULL;
        PRAGMA foreign_keys = ON;
        PRAGMA wal_autocheckpoint = 0;
        PRAGMA journal_size_limit = 67108864;
        PRAGMA cache_size = -16384;
        PRAGMA secure_delete = ON;";
    connection.execute_batch(settings).map_err(during)?;
    migrate(&mut connection).map_err(during)?;
    // The directory is ours alone: whoever holds a session, a wake or a delivery, or has clients, is
    // dead. One that died may have erased something and not come to cut the log.
    let sql = "UPDATE wakes SET claimed_until = 0 WHERE claimed_until > 0;
               UPDATE deliveries SET claimed_until = 0 WHERE claimed_until > 0;
               UPDATE calls SET unattended_since = since
               WHERE expires_at IS NOT NULL AND kind = 'client_exec' AND custom = 0
                 AND unattended_since IS NULL;
               DELETE FROM clients;
               DELETE FROM nodes;
               PRAGMA wal_checkpoint(TRUNCATE);";
    connection.execute_batch(sql).map_err(during)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Opens a connection that only reads.
pub(crate) fn reader(path: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(path, flags).map_err(|error| database_error(&error))?;
    connection
        .busy_timeout(BUSY_WAIT)
        .and_then(|()| {
            connection.execute_batch("PRAGMA query_only = ON; PRAGMA synchronous = FULL;")
        })
        .map_err(|error| database_error(&error))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Refuses a file that is not ours, or is from the future, before anything in it is touched.
pub(super) fn recognise(connection: &Connection, path: &Path) -> Result<(), Error> {
    let pragma = |name: &str| {
        connection
            .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
            .map_err(|error| database_error(&error).during(&path.display().to_string()))
    };
    let (application, version) = (pragma("application_id")?, pragma("user_version")?);
    let n_objects: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(|error| database_error(&error).during(&path.display().to_string()))?;
    let is_empty = application == 0 && n_objects == 0;
    if application != APPLICATION_ID && !is_empty {
        let context = format!("`{}` is a database of another program", path.display());
        return Err(Error::new(ErrorKind::WrongFile, context));
    }
    let known = MIGRATIONS.len() as i64;
    if version > known {
        let context = format!(
            "`{}` has schema version {version}; this haft knows versions up to {known}",
            path.display()
        );
        return Err(Error::new(ErrorKind::NewerSchema, context));
    }
    Ok(())
}

/// The version of the schema that this program writes.
pub(super) const fn schema_known() -> u32 {
    MIGRATIONS.len() as u32
}

fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    let version: u32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for migration in MIGRATIONS.iter().skip(version as usize) {
        transaction.execute_batch(migration)?;
    }
    if (version as usize) < MIGRATIONS.len() {
        fill_openers(&transaction)?;
        authority::fill(&transaction)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", MIGRATIONS.len() as i64)?;
    transaction.commit()
}

/// Fills in who opened the sessions whose rows do not say so. It is in the first entry of each log,
/// whose length only its row tells, so that no statement of SQL can read it.
fn fill_openers(connection: &Connection) -> rusqlite::Result<()> {
    let mut statement =
        connection.prepare("SELECT id, key, tail FROM sessions WHERE opened_by IS NULL")?;
    let mut fill = connection.prepare("UPDATE sessions SET opened_by = ?2 WHERE key = ?1")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (id, key, tail): (Vec<u8>, i64, Option<i64>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let Ok(bits) = id_bits(&id) else { continue };
        let log = Log { session: SessionId::from_bits(bits), key, tail };
        match log.some_after(connection, 0, 1) {
            // A session whose first entry cannot be read is nobody's: those who see the whole
            // tenant find it, and loading it says what is wrong.
            Ok(entries) => {
                let by = entries.first().and_then(|entry| opener(&entry.event().ok()?));
                fill.execute(params![key, by])?;
            }
            Err(Fault::Sqlite(error)) => return Err(error),
            Err(Fault::Ours(_)) => {}
        }
    }
    let sql = "UPDATE calls SET opened_by =
                 (SELECT opened_by FROM sessions WHERE sessions.key = calls.session)
               WHERE expires_at IS NOT NULL AND opened_by IS NULL";
    connection.execute(sql, []).map(|_| ())
}

/// Sorts what SQLite reports by who can do something about it.
pub(crate) fn database_error(error: &rusqlite::Error) -> Error {
    let kind = match error.sqlite_error().map(|error| error.extended_code) {
        Some(code) => match code & 0xff {
            ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => ErrorKind::Gone,
            ffi::SQLITE_FULL => ErrorKind::DiskFull,
            ffi::SQLITE_READONLY | ffi::SQLITE_CANTOPEN | ffi::SQLITE_PERM => ErrorKind::ReadOnly,
            ffi::SQLITE_NOTADB => ErrorKind::WrongFile,
            ffi::SQLITE_CORRUPT => ErrorKind::Corrupt,
            ffi::SQLITE_IOERR => ErrorKind::Stopped,
            _ => ErrorKind::Internal,
        },
        None => match error {
            rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..) => ErrorKind::Corrupt,
            _ => ErrorKind::Internal,
        },
    };
    Error::new(kind, format!("SQLite: {error}"))
}
