//! A store that was put back from a backup is told so, before any node works on it.

use haft_core::session::{Event, Input, Restored, SuspensionKind, accept};
use haft_core::{Actor, SessionId, Timestamp};
use haft_store::{
    Append, AppendError, Fence, FollowedBy, Page, SessionFilter, SessionStatus, Store,
};

use crate::error::InputError;

/// How many sessions are listed at once.
const PAGE: u32 = 500;

/// How many sessions are told at once, so that they share commits.
const AT_ONCE: usize = 64;

/// What came of telling the sessions of a store that it was put back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RestoreSummary {
    /// How many sessions were open, and were told.
    pub sessions: u64,
    /// How many calls are in doubt because of it.
    pub calls_in_doubt: u64,
}

/// Tells every open session that the store was put back from a backup: calls that were open in it
/// may have run since, so they are in doubt and wait for a person. For a store that no node uses.
///
/// # Errors
///
/// When the store cannot be read or written. It can be done again: what is in doubt stays so.
pub async fn mark_restored(
    store: &Store,
    by: &Actor,
    backed_up_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<RestoreSummary, InputError> {
    let restored = Restored { by: by.clone(), backed_up_at };
    let mut marked = RestoreSummary::default();
    let mut page = Page::first(PAGE);
    loop {
        let listed = store.sessions(&SessionFilter::default(), &page).await?;
        let open = listed.iter().filter(|listed| listed.status != SessionStatus::Ended);
        let open: Vec<SessionId> = open.map(|listed| listed.session).collect();
        for some in open.chunks(AT_ONCE) {
            let mut telling = tokio::task::JoinSet::new();
            for session in some {
                telling.spawn(tell(store.clone(), *session, restored.clone(), now));
            }
            while let Some(told) = telling.join_next().await {
                let told = told.map_err(|_| InputError::ShuttingDown)??;
                if let Some(in_doubt) = told {
                    marked.sessions += 1;
                    marked.calls_in_doubt += in_doubt;
                }
            }
        }
        match listed.last() {
            Some(last) if listed.len() == PAGE as usize => page = Page::after(last.session, PAGE),
            _ => return Ok(marked),
        }
    }
}

/// Tells one session; returns how many of its calls are in doubt, and `None` if it is not open.
async fn tell(
    store: Store,
    session: SessionId,
    restored: Restored,
    now: Timestamp,
) -> Result<Option<u64>, InputError> {
    loop {
        let Some(loaded) = store.load(session).await? else { return Ok(None) };
        if loaded.state.as_open().is_none() {
            return Ok(None);
        }
        let decision = accept(&loaded.state, now, Input::Restored(restored.clone()))?;
        let in_doubt = decision.events.iter().filter(|event| is_doubt(event)).count() as u64;
        // As if the session's owner did it: nobody need look at a session in which nothing runs.
        let fence = Fence::Owner { epoch: loaded.epoch };
        let append = Append {
            session,
            fence,
            expected: loaded.head,
            at: now,
            events: decision.events,
            snapshot: None,
            followed_by: FollowedBy::Anyone,
            request: None,
        };
        match store.append(&append).await {
            Ok(_) => return Ok(Some(in_doubt)),
            Err(AppendError::HeadMoved { .. } | AppendError::Fenced { .. }) => {}
            Err(AppendError::UnknownSession) => return Ok(None),
            Err(AppendError::Store(error)) => return Err(error.into()),
        }
    }
}

fn is_doubt(event: &Event) -> bool {
    matches!(event, Event::CallSuspended { kind: SuspensionKind::Settlement, .. })
}
