//! Checkpoints: what was committed moves from SQLite's log of changes into the database file.
//!
//! Beside the writer, because a checkpoint writes all over the file and syncs it, and nobody's
//! commit should wait for that. A checkpoint beside a writer never quite catches up, so that the
//! log would never begin anew: the little that is left is moved by the writer itself.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::connection::{self, BUSY_WAIT, database_error};
use crate::error::{Error, ErrorKind};

/// Checkpoint after about 16 MB: pages that many commits change are moved once.
const ASK_AFTER_PAGES: u64 = 4_000;

/// How much the writer moves by itself.
const REST_MAX_PAGES: u64 = 500;

/// From where on the writer moves whatever there is: the disk is too slow to be chased.
const LOG_MAX_PAGES: u64 = 32_000;

/// How long readers are waited for when the log is to be cut: nobody writes meanwhile.
const CUT_WAIT: Duration = Duration::from_secs(1);

/// How often it is tried again to cut the log. Each time may sync the file.
const CUT_EVERY: Duration = Duration::from_millis(100);

/// How long the log is, and how much of it has been moved.
#[derive(Debug, Clone, Copy)]
struct Moved {
    pages: u64,
    moved: u64,
}

/// The writer's side of the checkpoints.
#[derive(Debug)]
pub(super) struct Checkpoints {
    log_pages: Arc<AtomicU64>,
    /// `None` only while it is being dropped.
    requests: Option<SyncSender<()>>,
    answers: Receiver<Result<Moved, Error>>,
    thread: Option<JoinHandle<()>>,
    phase: Phase,
    erased: Erased,
}

/// Where the bytes are that were erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Erased {
    Nowhere,
    /// Someone was in the way of cutting the log, and is looked for again.
    InTheLog {
        look_at: Instant,
    },
}

/// What came of cutting the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Done,
    /// Somebody reads from it or moves it.
    InUse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Asked,
    Resting,
}

impl Checkpoints {
    /// Starts them for the connection that writes.
    pub(super) fn start(path: &Path, writer: &mut Connection) -> Result<Self, Error> {
        let beside = connection::reader(path)?;
        let log_pages = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&log_pages);
        writer
            .wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: i32| {
                seen.store(u64::try_from(pages).unwrap_or(0), Ordering::Relaxed);
                Ok(())
            }))
            .map_err(|error| database_error(&error))?;
        let (requests, asked) = sync_channel(1);
        let (answer, answers) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("haft-store-checkpoints".to_owned())
            .spawn(
                move || {
                    while asked.recv().is_ok() && answer.send(checkpoint(&beside)).is_ok() {}
                },
            )
            .map_err(|error| Error::new(ErrorKind::Internal, format!("starting: {error}")))?;
        let (requests, thread) = (Some(requests), Some(thread));
        let (phase, erased) = (Phase::Resting, Erased::Nowhere);
        Ok(Self { log_pages, requests, answers, thread, phase, erased })
    }

    /// Moves everything and leaves the log empty, so that it holds nothing of what was erased. A
    /// program outside that reads for long is not waited for: then the log is cut as soon as that
    /// lets go of it.
    ///
    /// # Errors
    ///
    /// When the disk failed: what the file holds is not known any more.
    pub(super) fn cut(&mut self, writer: &Connection) -> Result<(), Error> {
        // Nothing that waits for readers waits for another checkpoint.
        if self.phase == Phase::Asked
            && let Ok(moved) = self.answers.recv_timeout(CUT_WAIT)
        {
            self.rest(moved)?;
        }
        self.try_to_cut(writer, CUT_WAIT)
    }

    /// Whether the log holds what was erased.
    pub(super) fn is_to_be_cut(&self) -> bool {
        self.erased != Erased::Nowhere
    }

    /// Tries again to cut a log that somebody had in use.
    ///
    /// # Errors
    ///
    /// When the disk failed: what the file holds is not known any more.
    pub(super) fn cut_again(&mut self, writer: &Connection) -> Result<(), Error> {
        match self.erased {
            Erased::InTheLog { look_at } if look_at <= Instant::now() => {
                self.try_to_cut(writer, Duration::ZERO)
            }
            Erased::InTheLog { .. } | Erased::Nowhere => Ok(()),
        }
    }

    fn try_to_cut(&mut self, writer: &Connection, patience: Duration) -> Result<(), Error> {
        self.erased = match truncate(writer, patience) {
            Err(error) if error.kind() == ErrorKind::Stopped => return Err(error),
            Ok(Cut::Done) => Erased::Nowhere,
            Ok(Cut::InUse) | Err(_) => Erased::InTheLog { look_at: Instant::now() + CUT_EVERY },
        };
        Ok(())
    }

    /// Has the log moved when it is long enough.
    ///
    /// # Errors
    ///
    /// When the disk failed: what the file holds is not known any more.
    pub(super) fn after_commit(&mut self, writer: &Connection) -> Result<(), Error> {
        if self.is_to_be_cut() {
            self.cut_again(writer)?;
        }
        let pages = self.log_pages.load(Ordering::Relaxed);
        match self.phase {
            Phase::Resting if pages < ASK_AFTER_PAGES => Ok(()),
            Phase::Resting => {
                self.ask();
                Ok(())
            }
            Phase::Asked => match self.answers.try_recv() {
                Err(TryRecvError::Empty) => Ok(()),
                Ok(Err(error)) => self.rest(Err(error)),
                Ok(Ok(Moved { moved, .. })) if is_left_to_chase(pages, moved) => {
                    self.ask();
                    Ok(())
                }
                Ok(Ok(_)) | Err(TryRecvError::Disconnected) => {
                    let moved = checkpoint(writer);
                    self.rest(moved)
                }
            },
        }
    }

    fn ask(&mut self) {
        // There is room: nothing is asked for before the answer to what was asked for last.
        let asked = self.requests.as_ref().is_some_and(|requests| requests.try_send(()).is_ok());
        self.phase = if asked { Phase::Asked } else { Phase::Resting };
    }

    /// Only a disk that failed matters: whatever else was in the way is tried again.
    fn rest(&mut self, moved: Result<Moved, Error>) -> Result<(), Error> {
        self.phase = Phase::Resting;
        match moved {
            Err(error) if error.kind() == ErrorKind::Stopped => Err(error),
            Ok(Moved { pages, moved }) if pages == moved => {
                self.log_pages.store(0, Ordering::Relaxed);
                Ok(())
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // It has nothing to say any more.
            drop(thread.join());
        }
    }
}

const fn is_left_to_chase(pages: u64, moved: u64) -> bool {
    pages < LOG_MAX_PAGES && pages.saturating_sub(moved) > REST_MAX_PAGES
}

/// Moves what can be moved without anyone waiting.
fn checkpoint(connection: &Connection) -> Result<Moved, Error> {
    let sql = "PRAGMA wal_checkpoint(PASSIVE)";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
    let (pages, moved) =
        connection.query_row(sql, [], read).map_err(|error| database_error(&error))?;
    let count = |pages: i64| u64::try_from(pages).unwrap_or(0);
    Ok(Moved { pages: count(pages), moved: count(moved) })
}

/// Moves everything and leaves the log empty. SQLite says in its answer that somebody was in the
/// way, and not as an error.
fn truncate(writer: &Connection, patience: Duration) -> Result<Cut, Error> {
    let is_in_use = |row: &rusqlite::Row<'_>| row.get::<_, bool>(0);
    let cut = writer
        .busy_timeout(patience)
        .and_then(|()| writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], is_in_use));
    let waits_as_before = writer.busy_timeout(BUSY_WAIT);
    let is_in_use = cut.and_then(|is_in_use| waits_as_before.map(|()| is_in_use));
    match is_in_use.map_err(|error| database_error(&error))? {
        true => Ok(Cut::InUse),
        false => Ok(Cut::Done),
    }
}
