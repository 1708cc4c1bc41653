//! What a model remembers of the sessions it is asked about, so that a question costs what is
//! new. The log is the truth: what is forgotten here is read again.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use haft_core::session::{Open, Summary};
use haft_core::{Failure, SessionId};
use haft_runtime::SessionLog;

use crate::transcript::History;

/// How many sessions are remembered.
const SESSIONS_MAX: usize = 256;

/// The histories of the sessions that were asked about last.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_session: BTreeMap<SessionId, (u64, History)>,
    n_uses: u64,
}

impl Memory {
    /// Takes a session's history out, read up to the end of its log. Without one in memory it is
    /// read from its latest summary on.
    pub(crate) async fn recall(
        &self,
        session: SessionId,
        open: &Open,
        log: &SessionLog,
    ) -> Result<History, Failure> {
        let mut history = match (self.lock().by_session.remove(&session), &open.summary) {
            (Some((_, history)), _) => history,
            (None, Some(summary)) => History::after(std::sync::Arc::<Summary>::clone(summary)),
            (None, None) => History::default(),
        };
        for (seq, event) in log.events_after(history.seq()).await? {
            history.take(seq, event);
        }
        Ok(history)
    }

    /// Puts a history back for the next question.
    pub(crate) fn keep(&self, session: SessionId, history: History) {
        let mut kept = self.lock();
        kept.n_uses += 1;
        let now = kept.n_uses;
        kept.by_session.insert(session, (now, history));
        if kept.by_session.len() > SESSIONS_MAX {
            let oldest = kept.by_session.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(oldest) = oldest.map(|(session, _)| *session) {
                kept.by_session.remove(&oldest);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
