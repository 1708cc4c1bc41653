//! Having a directory to oneself: the locks, and what an earlier store has left in it.
//!
//! The lock that counts is on the database itself, so that it cannot be removed without removing
//! the database. `haft.lock` is taken as well, because earlier versions of Haft know no other.
//!
//! SQLite locks byte ranges of the same file by another kind of lock, of which the kernel lets go
//! as soon as this process closes any handle of the file. So the file is opened once per process
//! and stays open until the last connection is gone: [`HELD`] says which ones are.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::mark;
use crate::error::{Error, ErrorKind};

/// Device and number of a file, which stay the same under whatever name.
pub(super) type FileId = (u64, u64);

/// The databases that this process has open.
static HELD: Mutex<BTreeSet<FileId>> = Mutex::new(BTreeSet::new());

/// A directory that no other process has.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) database: PathBuf,
    pub(super) id: FileId,
    /// The locks go with the files.
    _database: File,
    _lock: File,
}

/// The mode of every file of a store. SQLite gives the files beside the database the same.
pub(super) const PRIVATE: u32 = 0o600;

impl Claim {
    /// Removes copies of the database that a process which was killed has left behind: they hold
    /// what may have been erased since.
    pub(crate) fn remove_copies(&self) {
        let (Some(directory), Some(name)) = (self.database.parent(), self.database.file_name())
        else {
            return;
        };
        let begins = format!("{}{}", name.to_string_lossy(), crate::store::COPY_MARK);
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&begins) {
                // One that cannot be removed now is tried again at the next start.
                drop(fs::remove_file(entry.path()));
            }
        }
    }

    pub(crate) fn take(directory: &Path) -> Result<Self, Error> {
        let doing = |error: &io::Error| io_error(error, directory);
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(|error| doing(&error))?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(PRIVATE)
            .open(directory.join("haft.lock"))
            .map_err(|error| doing(&error))?;
        try_lock(&lock, directory)?;
        let database = directory.join("haft.db");
        require_no_loss(directory, &database)?;
        if file_id(&database).is_some_and(|id| held().contains(&id)) {
            return Err(in_use(directory));
        }
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(PRIVATE)
            .open(&database)
            .map_err(|error| doing(&error))?;
        let locked = try_lock(&file, directory);
        let id = file.metadata().map(|found| (found.dev(), found.ino()));
        let id = id.map_err(|error| doing(&error))?;
        locked?;
        held().insert(id);
        Ok(Self { database, id, _database: file, _lock: lock })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        held().remove(&self.id);
    }
}

/// Returns whether a process has the database of a directory, this one included.
pub(crate) fn is_database_in_use(directory: &Path) -> io::Result<bool> {
    let database = directory.join("haft.db");
    match file_id(&database) {
        None => return Ok(false),
        Some(id) if held().contains(&id) => return Ok(true),
        Some(_) => {}
    }
    let file = File::open(&database)?;
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Returns which file is at a path, without opening it.
pub(super) fn file_id(path: &Path) -> Option<FileId> {
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Refuses a directory in which there was a store and is none any more: beginning a new one there
/// would hide that the old one is gone.
fn require_no_loss(directory: &Path, database: &Path) -> Result<(), Error> {
    let is_empty = fs::metadata(database).map_or(true, |found| found.len() == 0);
    if !is_empty {
        return Ok(());
    }
    let log = database.with_file_name("haft.db-wal");
    let has_log = fs::metadata(log).is_ok_and(|found| found.len() > 0);
    let trace = match (mark::path(directory).exists(), has_log) {
        (true, _) => mark::NAME,
        (false, true) => "haft.db-wal",
        (false, false) => return Ok(()),
    };
    let what = if database.exists() { "is empty" } else { "is missing" };
    let context = format!(
        "`{}` {what}, but `{trace}` beside it belongs to a store that was here",
        database.display()
    );
    Err(Error::new(ErrorKind::Lost, context))
}

fn held() -> MutexGuard<'static, BTreeSet<FileId>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn try_lock(file: &File, directory: &Path) -> Result<(), Error> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(in_use(directory)),
        Err(TryLockError::Error(error)) => Err(io_error(&error, directory)),
    }
}

fn in_use(directory: &Path) -> Error {
    Error::new(ErrorKind::InUse, format!("another process has `{}`", directory.display()))
}

pub(super) fn io_error(error: &io::Error, path: &Path) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::ReadOnly,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::DiskFull,
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => ErrorKind::WrongFile,
        _ => ErrorKind::Internal,
    };
    Error::new(kind, format!("`{}`: {error}", path.display()))
}
