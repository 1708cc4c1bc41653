//! What a session's log tells beyond its state: its runs, what was said and done in them, and the
//! events in document 002's words. Everything here is derived; nothing of it is stored.

mod feed;
mod runs;

pub(crate) use feed::{EventId, FeedEvent, TYPES, feed};
pub(crate) use runs::{Done, Run, RunId, SpanEnd, each_text, runs, said};

use haft_core::session::Event;
use haft_core::{SessionId, Timestamp};
use haft_runtime::ToolError;
use haft_store::Store;

/// How many entries are read at once.
const PAGE: u32 = 512;

/// One entry of a log.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Told {
    pub(crate) seq: u64,
    pub(crate) at: Timestamp,
    pub(crate) event: Event,
}

/// Reads a log's entries after a place, at most so many.
pub(crate) async fn read(
    store: &Store,
    session: SessionId,
    after: u64,
    most: u64,
) -> Result<Vec<Told>, ToolError> {
    let (mut told, mut after, end) = (Vec::new(), after, after.saturating_add(most));
    while after < end {
        let limit = u32::try_from(end - after).unwrap_or(PAGE).min(PAGE);
        let page = store.entries(session, after, limit).await?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        for entry in &page {
            let event = entry.event().map_err(|error| ToolError::internal(error.to_string()))?;
            told.push(Told { seq: entry.seq, at: entry.at, event });
        }
    }
    Ok(told)
}
