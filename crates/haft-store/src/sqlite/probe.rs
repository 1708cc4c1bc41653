//! Whether the disk takes a write now.

use std::fs;
use std::path::Path;

use rusqlite::Connection;

use super::Sqlite;
use super::claim::io_error;
use super::writer::Hint;
use crate::error::{Error, ErrorKind};

/// Written and removed again, so that a full disk is noticed while SQLite's log still has room in
/// what it has used before.
const ROOM: &str = "haft.room";
const ROOM_LEN: usize = 64 << 10;

impl Sqlite {
    /// Makes a write durable, behind all that wait for the writer.
    pub(crate) async fn check_writable(&self) -> Result<(), Error> {
        let room = self.claim.database.with_file_name(ROOM);
        let tried = tokio::task::spawn_blocking(move || try_room(&room)).await;
        tried.map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))??;
        let write = |connection: &Connection| {
            connection.prepare_cached("UPDATE mark SET commits = commits")?.execute([])?;
            Ok(Ok(()))
        };
        self.writer.write(Hint::Nothing, write).await
    }
}

fn try_room(path: &Path) -> Result<(), Error> {
    let tried = fs::write(path, [0; ROOM_LEN]);
    // One that stays behind is overwritten by the next try.
    drop(fs::remove_file(path));
    tried.map_err(|error| io_error(&error, path))
}
