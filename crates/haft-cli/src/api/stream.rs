//! A session's log as it grows, and what is told beside it.

use std::collections::VecDeque;

use haft_agent::{Frame, SseDecoder};
use haft_core::Timestamp;
use haft_core::session::Event;
use serde_json::Value;

use super::Begun;

/// Something heard of a session.
#[derive(Debug)]
pub(crate) enum Heard {
    /// An event at its place in the log.
    Entry { seq: u64, at: Timestamp, event: Box<Event> },
    /// All that was there has been told.
    CaughtUp,
    /// A running call says how far it is.
    Progress { call: String, progress: Value },
    /// The model is saying this.
    Text { turn: u32, text: String },
    /// The session was deleted; nothing follows.
    Deleted,
}

/// What is heard of a session, piece by piece.
pub(crate) struct Stream {
    begun: Begun,
    decoder: SseDecoder,
    ready: VecDeque<Frame>,
}

impl Stream {
    pub(super) fn new(begun: Begun, decoder: SseDecoder) -> Self {
        Self { begun, decoder, ready: VecDeque::new() }
    }

    /// Returns what is heard next; nothing when the stream has ended or broken off, after which
    /// it is followed anew from the last place.
    pub(crate) async fn next(&mut self) -> Option<Heard> {
        loop {
            while let Some(frame) = self.ready.pop_front() {
                if let Some(heard) = heard(&frame) {
                    return Some(heard);
                }
            }
            let bytes = self.begun.next().await.ok()??;
            self.ready.extend(self.decoder.push(&bytes).ok()?);
        }
    }
}

/// Events that a newer server knows and this program does not are passed over.
fn heard(frame: &Frame) -> Option<Heard> {
    let data: Value = serde_json::from_str(&frame.data).ok()?;
    match frame.event.as_deref()? {
        "entry" => Some(Heard::Entry {
            seq: data["seq"].as_u64()?,
            at: Timestamp::from_ms(data["at"].as_i64()?),
            event: Box::new(serde_json::from_value(data["event"].clone()).ok()?),
        }),
        "caught_up" => Some(Heard::CaughtUp),
        "session.deleted" => Some(Heard::Deleted),
        "progress" => {
            let call = data["call"].as_str()?.to_owned();
            Some(Heard::Progress { call, progress: data["progress"].clone() })
        }
        "text" => {
            let turn = u32::try_from(data["turn"].as_u64()?).ok()?;
            Some(Heard::Text { turn, text: data["text"].as_str()?.to_owned() })
        }
        _ => None,
    }
}
