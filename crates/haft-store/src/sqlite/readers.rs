//! The readers: a few threads of the store's own, each with a connection.
//!
//! They are not those of the runtime's pool for blocking work, which others fill with what may
//! take long. A read that panics fails alone: its thread goes on with a fresh connection.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::connection;
use crate::error::{Error, ErrorKind};

/// Reads are short and mostly served from memory: more connections than cores gain nothing.
const N_READERS: usize = 4;

/// As many reads as a process may have asked for; whoever comes when it is full waits.
const QUEUE_LEN: usize = 1_024;

type Job = Box<dyn FnOnce(&Connection) + Send>;

/// Takes reads to the threads, which end with the handle.
#[derive(Debug)]
pub(super) struct Readers {
    /// `None` only while the handle is being dropped.
    jobs: Option<mpsc::Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    pub(super) fn start(database: &Path) -> Result<Self, Error> {
        let (jobs, queue) = mpsc::channel(QUEUE_LEN);
        let queue = Arc::new(Mutex::new(queue));
        let mut readers = Self { jobs: Some(jobs), threads: Vec::with_capacity(N_READERS) };
        for _ in 0..N_READERS {
            let reader = Reader {
                database: database.to_owned(),
                connection: connection::reader(database)?,
                queue: Arc::clone(&queue),
            };
            let thread = std::thread::Builder::new()
                .name("haft-store-reader".to_owned())
                .spawn(move || reader.run())
                .map_err(|error| Error::new(ErrorKind::Internal, format!("starting: {error}")))?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    /// Reads something, and returns when it was read. A read that nobody waits for any more when
    /// its turn comes is left out.
    pub(super) async fn read<T, F>(&self, work: F) -> Result<T, Error>
    where
        F: FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
        T: Send + 'static,
    {
        let broken = || Error::new(ErrorKind::Internal, "a read did not come to its end");
        let (answer, result) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            if !answer.is_closed() {
                // Whoever asked may have gone away meanwhile.
                drop(answer.send(work(connection)));
            }
        });
        let jobs = self.jobs.as_ref().ok_or_else(broken)?;
        jobs.send(job).await.map_err(|_| broken())?;
        // A read that panicked has dropped its answer.
        result.await.map_err(|_| broken())?
    }
}

impl Drop for Readers {
    /// Waits for what is being read, so that a directory whose store is gone can be opened again.
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A panic of a read has been reported to who waited for it.
            drop(thread.join());
        }
    }
}

struct Reader {
    database: PathBuf,
    connection: Connection,
    queue: Arc<Mutex<mpsc::Receiver<Job>>>,
}

impl Reader {
    fn run(mut self) {
        while let Some(job) = self.next() {
            let read = catch_unwind(AssertUnwindSafe(|| job(&self.connection)));
            if read.is_err() {
                // A statement may have been left half read, which would keep its snapshot for ever.
                // When no fresh connection is to be had, the old one is better than none.
                if let Ok(fresh) = connection::reader(&self.database) {
                    self.connection = fresh;
                }
            }
        }
    }

    /// Waits for the next read; `None` when the store is closed. One thread waits, the others
    /// wait for it.
    fn next(&self) -> Option<Job> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;

    async fn one(readers: &Readers) -> Result<i64, Error> {
        let read = |connection: &Connection| {
            let one = connection.query_row("SELECT 1", [], |row| row.get(0));
            one.map_err(|error| super::super::database_error(&error))
        };
        readers.read(read).await
    }

    #[tokio::test]
    async fn reads_that_panic_fail_alone() {
        let data = tempfile_dir();
        drop(Store::open_sqlite(&data).unwrap());
        let database = std::fs::read_dir(&data)
            .unwrap()
            .map(|file| file.unwrap().path())
            .find(|path| path.extension().is_some_and(|extension| extension == "db"))
            .unwrap();
        let readers = Readers::start(&database).unwrap();
        for _ in 0..3 * N_READERS {
            let panics = |_: &Connection| -> Result<i64, Error> { panic!("a read that panics") };
            assert_eq!(readers.read(panics).await.unwrap_err().kind(), ErrorKind::Internal);
        }
        for _ in 0..3 * N_READERS {
            assert_eq!(one(&readers).await.unwrap(), 1);
        }
        drop(readers);
        std::fs::remove_dir_all(&data).unwrap();
    }

    /// A directory of this test's own.
    fn tempfile_dir() -> PathBuf {
        let directory = std::env::temp_dir().join(format!("haft-readers-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        directory
    }
}
