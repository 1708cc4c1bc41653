//! How far the store had come: a small file beside the database, written after every commit.
//!
//! Commits stand in SQLite's log until a checkpoint moves them, and SQLite takes a log that is
//! missing, cut or damaged for one that ends earlier. So every commit counts itself in the database
//! (the table `mark`), and the count is written to `haft.mark` before anyone is told that the
//! commit is durable. A database whose count is below the file's has lost commits.
//!
//! The file is not synced: what matters is that it is never ahead of the database. It holds after
//! the process is killed. After a loss of power it may be behind by what the system had not written
//! yet, and then says less, but nothing wrong.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use haft_core::Digest;
use rusqlite::{Connection, OptionalExtension as _};

use super::claim::PRIVATE;
use super::connection::{self, database_error};
use crate::error::{Error, ErrorKind};
use crate::key::{number, unsigned};

pub(super) const NAME: &str = "haft.mark";

/// What the file starts with; the number is that of its form.
const MAGIC: &str = "haft-mark 1";

/// A store's identity and how many commits it has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommitCount {
    /// Drawn when the store was made, in hex.
    store: String,
    commits: u64,
}

/// What the file beside a database says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum MarkFile {
    Missing,
    /// The file is there and cannot be read.
    Damaged,
    CommitCount(CommitCount),
}

/// The file, open to be written after every commit.
#[derive(Debug)]
pub(super) struct Mark {
    file: File,
    counted: CommitCount,
}

pub(super) fn path(directory: &Path) -> PathBuf {
    directory.join(NAME)
}

/// Refuses a database that is older than the file beside it, or another one.
pub(super) fn require_whole(connection: &Connection, database: &Path) -> Result<(), Error> {
    let directory = database.parent().unwrap_or_else(|| Path::new("."));
    match missing(connection, directory)? {
        None => Ok(()),
        Some(context) => Err(Error::new(ErrorKind::Lost, context)),
    }
}

/// Returns what is missing according to the file beside a database.
pub(super) fn missing(connection: &Connection, directory: &Path) -> Result<Option<String>, Error> {
    let MarkFile::CommitCount(noted) = read(directory) else { return Ok(None) };
    let file = path(directory);
    let file = file.display();
    let Some(stored) = stored(connection).map_err(|error| database_error(&error))? else {
        return Ok(Some(format!(
            "`haft.db` is older than the store that `{file}` belongs to, which has made {} commits",
            noted.commits
        )));
    };
    Ok(if stored.store != noted.store {
        Some(format!("`haft.db` is another store than the one that `{file}` belongs to"))
    } else if stored.commits < noted.commits {
        Some(format!(
            "writes that were acknowledged are missing: `{file}` counts {} commits and `haft.db` \
             ends with {}; its log `haft.db-wal` was removed, cut or damaged, or the database is \
             an older copy",
            noted.commits, stored.commits
        ))
    } else {
        None
    })
}

/// Removes the file of a store that has lost commits, so that it is made anew from what is left;
/// returns what is missing.
pub(super) fn forget(database: &Path) -> Result<Option<String>, Error> {
    let directory = database.parent().unwrap_or_else(|| Path::new("."));
    let connection = connection::reader(database)?;
    let missing = missing(&connection, directory)?;
    if missing.is_some() {
        let file = path(directory);
        fs::remove_file(&file).map_err(|error| super::claim::io_error(&error, &file))?;
    }
    Ok(missing)
}

/// Returns what the database counts; `None` for a schema that does not count yet.
fn stored(connection: &Connection) -> rusqlite::Result<Option<CommitCount>> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE name = 'mark'";
    let is_counted = connection.query_row(sql, [], |_| Ok(())).optional()?.is_some();
    if !is_counted {
        return Ok(None);
    }
    let sql = "SELECT lower(hex(store)), commits FROM mark";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?));
    let found: Option<(String, i64)> = connection.query_row(sql, [], read).optional()?;
    Ok(found.map(|(store, commits)| CommitCount { store, commits: unsigned(commits).unwrap_or(0) }))
}

impl Mark {
    /// Opens the file for the connection that writes, and brings it up to what the database says.
    pub(super) fn open(connection: &Connection, database: &Path) -> Result<Self, Error> {
        let directory = database.parent().unwrap_or_else(|| Path::new("."));
        let stored = stored(connection).map_err(|error| database_error(&error))?;
        let counted = stored.ok_or_else(|| Error::corrupt("the table `mark` has no row"))?;
        let is_new = read(directory) == MarkFile::Missing;
        let opened = open(&path(directory)).and_then(|file| {
            let mark = Self { file, counted };
            mark.write()?;
            mark.file.sync_all()?;
            if is_new {
                File::open(directory)?.sync_all()?;
            }
            Ok(mark)
        });
        opened.map_err(|error| super::claim::io_error(&error, &path(directory)))
    }

    /// Counts the commit that is about to be made, as part of it. A rollback takes it back.
    pub(super) fn count(&self, connection: &Connection) -> rusqlite::Result<()> {
        let sql = "UPDATE mark SET commits = ?1";
        let next = number(self.counted.commits + 1);
        connection.prepare_cached(sql)?.execute([next]).map(|_| ())
    }

    /// Notes that the commit which was counted is durable.
    ///
    /// # Errors
    ///
    /// When the file does not take it: then less is known after the next start, and nothing is lost.
    pub(super) fn committed(&mut self) -> io::Result<()> {
        self.counted.commits += 1;
        self.write()
    }

    fn write(&self) -> io::Result<()> {
        self.file.write_all_at(self.counted.text().as_bytes(), 0)
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // What is not synced is written by the system later.
        drop(self.file.sync_data());
    }
}

impl CommitCount {
    /// Always of the same length, so that each text takes the place of the one before.
    fn text(&self) -> String {
        let counted = format!("{MAGIC} {} {:020}", self.store, self.commits);
        let check = check_of(&counted);
        format!("{counted} {check}\n")
    }

    fn parse(text: &str) -> Option<Self> {
        let (counted, check) = text.trim_end().rsplit_once(' ')?;
        if check != check_of(counted) {
            return None;
        }
        let (store, commits) = counted.strip_prefix(MAGIC)?.trim_start().split_once(' ')?;
        Some(Self { store: store.to_owned(), commits: commits.parse().ok()? })
    }
}

fn check_of(counted: &str) -> String {
    let digest = Digest::of_bytes(counted.as_bytes());
    digest.as_bytes()[..4].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read(directory: &Path) -> MarkFile {
    match fs::read_to_string(path(directory)) {
        Ok(text) => CommitCount::parse(&text).map_or(MarkFile::Damaged, MarkFile::CommitCount),
        Err(error) if error.kind() == io::ErrorKind::NotFound => MarkFile::Missing,
        Err(_) => MarkFile::Damaged,
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).mode(PRIVATE).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_read_back_and_what_was_changed_is_not() {
        let counted = CommitCount { store: "00ff".repeat(8), commits: 41 };
        let text = counted.text();
        assert_eq!(CommitCount::parse(&text), Some(counted.clone()));
        assert_eq!(CommitCount::parse(&text.replace("41", "42")), None);
        assert_eq!(CommitCount::parse(""), None);
        let later = CommitCount { commits: u64::MAX, ..counted };
        assert_eq!(later.text().len(), text.len(), "each text takes the place of the one before");
    }
}
