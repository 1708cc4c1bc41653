//! The embedded store: one SQLite file in a directory of its own, one process at a time.
//!
//! One thread writes, with shared commits; a few connections read beside it, each seeing the
//! database as of one commit.

mod append;
mod audit;
mod authority;
mod checkpoint;
mod claim;
mod clients;
mod connection;
mod content;
mod erase;
mod erasures;
mod examine;
mod files;
mod heads;
mod journal;
mod mark;
mod notices;
mod probe;
mod readers;
mod repair;
mod requests;
mod sessions;
mod text;
mod work;
mod writer;

pub(crate) use audit::audit;
pub(crate) use claim::is_database_in_use;
pub(crate) use examine::examine;
pub(crate) use repair::repair;

use std::path::Path;
use std::time::SystemTime;

use haft_core::Timestamp;
use haft_core::journal::Head;
use rusqlite::Connection;
use tokio::sync::watch;

use self::claim::Claim;
use self::connection::database_error;
use self::heads::Heads;
use self::journal::NewPiece;
use self::notices::Hearers;
use self::readers::Readers;
use self::writer::{Hint, Writer};
use crate::append::{AppendError, Prepared};
use crate::error::Error;
use crate::shared::Shared;
use crate::work::Moment;

/// An open SQLite store. The fields are dropped in this order: the directory is free for others
/// only when nothing writes or reads any more.
#[derive(Debug)]
pub(crate) struct Sqlite {
    writer: Writer,
    heads: Heads,
    hearers: Hearers,
    readers: Readers,
    claim: Claim,
}

impl Sqlite {
    pub(crate) fn open(directory: &Path, shared: &Shared) -> Result<Self, Error> {
        let claim = Claim::take(directory)?;
        claim.remove_copies();
        let heads = Heads::default();
        let writer = Writer::start(&claim, heads.clone(), shared.clone())?;
        let hearers = Hearers::find(&connection::reader(&claim.database)?);
        let hearers = hearers.map_err(|error| database_error(&error))?;
        let readers = Readers::start(&claim.database)?;
        Ok(Self { writer, heads, hearers, readers, claim })
    }

    pub(crate) async fn append(&self, prepared: Prepared) -> Result<Head, AppendError> {
        let hint = if prepared.hints() { Hint::Look } else { Hint::Nothing };
        let piece = NewPiece::of(&prepared);
        let growth = piece.is_some().then_some((prepared.session, prepared.head.seq));
        let (heads, hearers) = (self.heads.clone(), self.hearers.clone());
        let append = move |connection: &Connection| {
            append::append(connection, &heads, &hearers, &prepared, piece.as_ref())
        };
        self.writer.write_growing(hint, growth, append).await
    }

    pub(crate) fn hints(&self) -> watch::Receiver<u64> {
        self.writer.hints()
    }

    /// Reads something on a thread where waiting for the disk holds nobody up.
    async fn read<T, F>(&self, work: F) -> Result<T, Error>
    where
        F: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
        T: Send + 'static,
    {
        self.readers.read(move |connection| work(connection).map_err(Error::from)).await
    }
}

/// What goes wrong in a statement or with what it returned; a type of its own so that `?` takes
/// SQLite's errors without making that a promise to other crates.
#[derive(Debug)]
enum Fault {
    Ours(Error),
    Sqlite(rusqlite::Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Ours(error)
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Ours(error) => error,
            Fault::Sqlite(error) => database_error(&error),
        }
    }
}

/// Sorts a job's result for the writer: SQLite's errors undo the batch, ours are an answer.
fn settled<T, E: From<Error>>(result: Result<T, Fault>) -> rusqlite::Result<Result<T, E>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(Fault::Ours(error)) => Ok(Err(error.into())),
        Err(Fault::Sqlite(error)) => Err(error),
    }
}

/// This process is the only one, so that its clock is the store's.
fn time(moment: Moment) -> Timestamp {
    match moment {
        Moment::At(at) => at,
        Moment::Clock => {
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let ms = since.map_or(0, |since| since.as_millis());
            Timestamp::from_ms(i64::try_from(ms).unwrap_or(i64::MAX))
        }
    }
}
