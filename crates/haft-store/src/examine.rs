//! Looks at a database without changing it: for whoever wants to know whether all is well.

use std::collections::BTreeMap;
#[cfg(feature = "sqlite")]
use std::fs::{File, TryLockError};
#[cfg(feature = "sqlite")]
use std::io;
#[cfg(feature = "sqlite")]
use std::path::Path;
#[cfg(feature = "sqlite")]
use std::time::Duration;

use haft_core::SessionId;
use haft_core::journal::Head;

use crate::audit::{AuditReport, RepairError, RepairReport};
use crate::error::Error;
use crate::measure::Standing;
#[cfg(feature = "postgres")]
use crate::postgres;
#[cfg(feature = "sqlite")]
use crate::sqlite;

/// What an embedded store looks like from outside.
#[cfg(feature = "sqlite")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqliteReport {
    /// The version of the schema that the file has.
    pub schema: u32,
    /// The version of the schema that this program writes; an older file is brought up to it when
    /// it is opened to be written.
    pub schema_known: u32,
    /// How large the database is, its write-ahead log included.
    pub bytes: u64,
    /// What SQLite's own check of the file says.
    pub check: SqliteCheck,
    /// What waits, unless the file is damaged or has an older schema.
    pub standing: Option<Standing>,
}

/// What SQLite's check of a file (`PRAGMA quick_check`) says.
#[cfg(feature = "sqlite")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SqliteCheck {
    /// The file is whole.
    Whole,
    /// The file is damaged.
    Damaged {
        /// What is wrong, in SQLite's words.
        findings: Vec<String>,
    },
    /// The check took too long and was cut off; nothing was found until then.
    CutOff,
}

/// What a PostgreSQL database looks like to a node that would use it.
#[cfg(feature = "postgres")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresReport {
    /// The server's version, as it says it.
    pub version: String,
    /// The version of Haft's schema; `None` when the database has none yet.
    pub schema: Option<u32>,
    /// The version of the schema that this program writes.
    pub schema_known: u32,
    /// Why nothing can be written; `None` when it can.
    pub read_only: Option<String>,
    /// The setting `synchronous_commit`.
    pub synchronous_commit: String,
    /// The setting `fsync`: when it is `off`, a crash of the machine may lose acknowledged writes.
    pub fsync: String,
    /// By how many milliseconds the server's clock is ahead of this machine's.
    pub clock_ahead_ms: i64,
    /// What stands between this program and the server, as far as it can be told.
    pub between: Option<String>,
    /// What waits; `None` where the schema is another.
    pub standing: Option<Standing>,
}

/// Returns whether a process has the embedded store of a directory open.
///
/// # Errors
///
/// When the lock file is there and cannot be tried.
#[cfg(feature = "sqlite")]
pub fn is_in_use(directory: &Path) -> io::Result<bool> {
    if sqlite::is_database_in_use(directory)? {
        return Ok(true);
    }
    let lock = match File::open(directory.join("haft.lock")) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    match lock.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Looks at the embedded store of a directory, also while another process uses it. Nothing is
/// made or changed, except that SQLite may write its index of the log (`haft.db-shm`) anew. The
/// check of the whole file is cut off after `limit`.
///
/// # Errors
///
/// When there is no database, or it is not one that this program could open.
#[cfg(feature = "sqlite")]
pub fn examine_sqlite(directory: &Path, limit: Duration) -> Result<SqliteReport, Error> {
    sqlite::examine(directory, limit)
}

/// Connects to a PostgreSQL database and looks at it. Nothing is written.
///
/// # Errors
///
/// When it does not answer, or does not let this user in.
#[cfg(feature = "postgres")]
pub async fn examine_postgres(url: &str) -> Result<PostgresReport, Error> {
    postgres::examine(url).await
}

/// Whether a repair goes on with a store that has lost commits.
#[cfg(feature = "sqlite")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossPolicy {
    /// What was acknowledged and is missing stays missing, and is not asked about again.
    Accept,
    /// A store that has lost commits is refused.
    Refuse,
}

/// Checks the whole embedded store of a directory, also while another process uses it: then as it
/// was when the check began. Nothing is written.
///
/// # Errors
///
/// When there is no database, or it is not one that this program could open. Damage is no error:
/// it is in the report.
#[cfg(feature = "sqlite")]
pub fn audit_sqlite(directory: &Path) -> Result<AuditReport, Error> {
    sqlite::audit(directory, &BTreeMap::new())
}

/// Checks the whole embedded store like [`audit_sqlite`], and also that it still has the logs as
/// someone saw them earlier, by where each of them ended.
///
/// # Errors
///
/// As [`audit_sqlite`].
#[cfg(feature = "sqlite")]
pub fn audit_sqlite_against(
    directory: &Path,
    seen: &BTreeMap<SessionId, Head>,
) -> Result<AuditReport, Error> {
    sqlite::audit(directory, seen)
}

/// Checks a whole PostgreSQL database as it is at one moment. Nothing is written.
///
/// # Errors
///
/// When it does not answer, or has the schema of another version.
#[cfg(feature = "postgres")]
pub async fn audit_postgres(url: &str) -> Result<AuditReport, Error> {
    postgres::audit(url, &BTreeMap::new()).await
}

/// Checks the whole PostgreSQL database like [`audit_postgres`], and also that it still has the logs
/// as someone saw them earlier, by where each of them ended.
///
/// # Errors
///
/// As [`audit_postgres`].
#[cfg(feature = "postgres")]
pub async fn audit_postgres_against(
    url: &str,
    seen: &BTreeMap<SessionId, Head>,
) -> Result<AuditReport, Error> {
    postgres::audit(url, seen).await
}

/// Makes the rows that follow from the logs of an embedded store anew, where they differ, and its
/// indexes. No other process may have the store.
///
/// # Errors
///
/// [`RepairError::Broken`] when logs, contents or the file itself are damaged; nothing is changed
/// then.
#[cfg(feature = "sqlite")]
pub fn repair_sqlite(directory: &Path, loss: LossPolicy) -> Result<RepairReport, RepairError> {
    sqlite::repair(directory, loss)
}

/// Makes the rows that follow from the logs of a PostgreSQL database anew, where they differ, a
/// session at a time: nodes may be at work meanwhile.
///
/// # Errors
///
/// [`RepairError::Broken`] when logs or contents are damaged; nothing is changed then.
#[cfg(feature = "postgres")]
pub async fn repair_postgres(url: &str) -> Result<RepairReport, RepairError> {
    postgres::repair(url).await
}
