//! The embedded store: one SQLite file in a directory of its own, one process at a time.
//!
//! One thread writes, with shared commits; a few connections read beside it, each seeing the
//! database as of one commit.

mod append;
mod checkpoint;
mod clients;
mod connection;
mod content;
mod erase;
mod erasures;
mod examine;
mod heads;
mod journal;
mod notices;
mod sessions;
mod text;
mod work;
mod writer;

pub(crate) use examine::examine;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use haft_core::Timestamp;
use haft_core::journal::Head;
use rusqlite::Connection;
use tokio::sync::{Semaphore, watch};

use self::connection::{Claim, database_error};
use self::heads::Heads;
use self::journal::NewPiece;
use self::notices::Hearers;
use self::writer::{Hint, Writer};
use crate::append::{AppendError, Prepared};
use crate::error::{Error, ErrorKind};
use crate::measure::Measures;
use crate::work::Moment;

/// Reads are short and mostly served from memory: more connections than cores gain nothing.
const N_READERS: usize = 4;

/// An open SQLite store. The fields are dropped in this order: the directory is free for others
/// only when nothing writes or reads any more.
#[derive(Debug)]
pub(crate) struct Sqlite {
    writer: Writer,
    heads: Heads,
    hearers: Hearers,
    readers: Arc<Readers>,
    claim: Claim,
}

#[derive(Debug)]
struct Readers {
    /// A place is held until the connection is back, also when nobody waits for the read any more.
    free: Arc<Semaphore>,
    connections: Mutex<Vec<Connection>>,
}

impl Sqlite {
    pub(crate) fn open(directory: &Path, measures: &Arc<Measures>) -> Result<Self, Error> {
        let claim = Claim::take(directory)?;
        claim.remove_copies();
        let heads = Heads::default();
        let writer = Writer::start(&claim.database, heads.clone(), Arc::clone(measures))?;
        let hearers = Hearers::find(&connection::reader(&claim.database)?);
        let hearers = hearers.map_err(|error| database_error(&error))?;
        let connections = (0..N_READERS).map(|_| connection::reader(&claim.database));
        let connections = Mutex::new(connections.collect::<Result<_, _>>()?);
        let readers = Arc::new(Readers { free: Arc::new(Semaphore::new(N_READERS)), connections });
        Ok(Self { writer, heads, hearers, readers, claim })
    }

    pub(crate) async fn append(&self, prepared: Prepared) -> Result<Head, AppendError> {
        let hint = if prepared.hints() { Hint::Look } else { Hint::Nothing };
        let piece = NewPiece::of(&prepared);
        let (heads, hearers) = (self.heads.clone(), self.hearers.clone());
        let append = move |connection: &Connection| {
            append::append(connection, &heads, &hearers, &prepared, piece.as_ref())
        };
        self.writer.write(hint, append).await
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
        let broken = || Error::new(ErrorKind::Internal, "a read did not come to its end");
        let readers = Arc::clone(&self.readers);
        let place = Arc::clone(&self.readers.free).acquire_owned().await.map_err(|_| broken())?;
        let read = tokio::task::spawn_blocking(move || {
            let connection = readers.lock().pop().ok_or_else(broken)?;
            let result = work(&connection).map_err(Error::from);
            readers.lock().push(connection);
            drop(place);
            result
        });
        read.await.map_err(|_| broken())?
    }
}

impl Readers {
    /// A panic while the list is held cannot leave it half changed.
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
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
