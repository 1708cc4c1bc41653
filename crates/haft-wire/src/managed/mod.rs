//! The event vocabulary of the Managed Agents API, as the official Anthropic SDKs speak it.
//!
//! [`Projection`] writes a session's log as those events; [`SentEvent`] reads the events that a
//! client sends. Nothing is kept beside the log: whoever folds it again gets the same events
//! with the same ids, so a list, a stream and a stream that was reconnected agree.

mod event;
mod projection;
mod sent;
mod spans;

pub use event::{Place, WireEvent};
pub use projection::{Projection, thread_id};
pub use sent::{Confirmation, SentError, SentEvent};
pub use spans::{Preview, Spent, session_deleted};

use haft_core::{CallResult, ContentBlock, Output};
use serde_json::{Value, json};

/// Writes content as the API's blocks; stored outputs are named.
pub fn blocks(content: &[ContentBlock]) -> Value {
    let block = |block: &ContentBlock| match block {
        ContentBlock::Text { text } => text_block(text),
        ContentBlock::Artifact { artifact } => {
            let title = artifact.title.as_deref().unwrap_or("stored output");
            text_block(&format!("[{title}: artifact {}, {} bytes]", artifact.id, artifact.bytes))
        }
    };
    content.iter().map(block).collect()
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Writes what came out of a call as the API's blocks, and whether it is an error.
fn result_blocks(result: &CallResult) -> (Value, bool) {
    match result {
        CallResult::Ok(output) => (output_blocks(output), false),
        CallResult::Err(failure) => (json!([text_block(&failure.message)]), true),
    }
}

fn output_blocks(output: &Output) -> Value {
    match &output.value {
        Some(value) if output.content.is_empty() => json!([text_block(&value.to_string())]),
        _ => blocks(&output.content),
    }
}
