//! Whether a write can be made durable now.
//!
//! The only honest way to know is to make one. Whoever asks at the same moment shares it, and its
//! answer holds for a second, so that probing often costs no more than probing once a second.

use std::time::Duration;

use haft_store::{Error, ErrorKind, Store};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// How long an answer holds.
const HOLDS_FOR: Duration = Duration::from_secs(1);

/// How long a small write may take before the store counts as one that does not write.
const CHECK_MAX: Duration = Duration::from_secs(4);

/// Why nothing can be written, for whoever probes. It names no file and no address, because probes
/// are open to everyone; the log has the rest.
pub(crate) type Obstacle = &'static str;

/// The latest answer, shared by all who ask.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    latest: Mutex<Option<(Instant, Result<(), Obstacle>)>>,
}

impl Readiness {
    /// Makes a write durable, unless someone did a moment ago.
    ///
    /// # Errors
    ///
    /// What keeps it from being durable, in plain words.
    pub(crate) async fn check(&self, store: &Store) -> Result<(), Obstacle> {
        if store.stopped().is_some() {
            return Err(STOPPED);
        }
        let mut latest = self.latest.lock().await;
        if let Some((at, answer)) = *latest
            && at.elapsed() < HOLDS_FOR
        {
            return answer;
        }
        let before = latest.as_ref().map(|(_, answer)| *answer);
        let answer = match timeout(CHECK_MAX, store.check_writable()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                let obstacle = in_words(&error);
                if before != Some(Err(obstacle)) {
                    tracing::warn!(%error, "the store cannot be written to");
                }
                Err(obstacle)
            }
            Err(_) => {
                if before != Some(Err(SLOW)) {
                    tracing::warn!("the store does not confirm writes");
                }
                Err(SLOW)
            }
        };
        *latest = Some((Instant::now(), answer));
        answer
    }
}

/// Says that only a restart helps.
pub(crate) const STOPPED: Obstacle = "the store takes no more writes until this process is \
     started again: a write could not be made durable, or the files of the store were removed or \
     replaced; the log says which";

const SLOW: Obstacle = "a small write was not confirmed within 4 seconds: the disk does not \
     answer, or PostgreSQL waits for a synchronous standby that is not there";

const fn in_words(error: &Error) -> Obstacle {
    match error.kind() {
        ErrorKind::DiskFull => {
            "the disk is full, so nothing can be stored; free some space, and the store goes on \
             by itself"
        }
        ErrorKind::ReadOnly => {
            "the store is read-only: the directory, the database or the user that connects to it \
             takes no writes"
        }
        ErrorKind::Gone | ErrorKind::Unknown => {
            "the database does not answer, or someone holds a lock on it; the store goes on by \
             itself when it does"
        }
        ErrorKind::Stopped => STOPPED,
        ErrorKind::Corrupt => "the database is damaged; `haft audit verify` says where",
        _ => "the store cannot be written to; the log says why",
    }
}
