//! Whether the files that are open are still the ones at their paths.
//!
//! A file that was removed or replaced goes on taking writes, and all of them are gone with the
//! process. So the writer looks after every commit, before anyone is told that it is durable: two
//! questions to the kernel, which cost about a microsecond.

use std::path::{Path, PathBuf};

use super::claim::{FileId, file_id};
use crate::error::{Error, ErrorKind};

/// The files of an open store, as they were when it was opened.
#[derive(Debug)]
pub(super) struct Files {
    watched: [(PathBuf, FileId); 2],
}

impl Files {
    /// Notes the files of a database that this process has open.
    pub(super) fn note(database: &Path, id: FileId) -> Result<Self, Error> {
        let log = database.with_file_name("haft.db-wal");
        let gone = || lost(&log);
        let log_id = file_id(&log).ok_or_else(gone)?;
        let files = Self { watched: [(database.to_owned(), id), (log, log_id)] };
        files.require_there()?;
        Ok(files)
    }

    /// Refuses to go on when a file is no longer the one at its path.
    pub(super) fn require_there(&self) -> Result<(), Error> {
        match self.watched.iter().find(|(path, id)| file_id(path) != Some(*id)) {
            None => Ok(()),
            Some((path, _)) => Err(lost(path)),
        }
    }
}

fn lost(path: &Path) -> Error {
    let context = format!(
        "`{}` was removed or replaced while it was in use, so what is written would be lost",
        path.display()
    );
    Error::new(ErrorKind::Stopped, context)
}
