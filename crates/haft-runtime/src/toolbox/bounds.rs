//! No result is too large for the model: what does not fit becomes an artifact, whoever made it.

use haft_core::session::Returned;
use haft_core::{CallResult, ContentBlock, Failure, Output, SessionId};
use serde_json::{Value, json};

use crate::artifacts::Artifacts;

/// How much of a failure's text the model reads: enough for a stack of causes.
const MESSAGE_MAX: usize = 8 << 10;

/// Bounds what a call returned, keeping the whole outside the log.
pub(crate) async fn bounded(
    returned: Returned,
    max: u64,
    session: SessionId,
    artifacts: &Artifacts,
) -> Returned {
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    let result = match returned.result {
        CallResult::Ok(output) => {
            CallResult::Ok(bounded_output(output, max, session, artifacts).await)
        }
        CallResult::Err(failure) => {
            CallResult::Err(bounded_failure(failure, max, session, artifacts).await)
        }
    };
    Returned { result, ..returned }
}

async fn bounded_output(
    output: Output,
    max: usize,
    session: SessionId,
    artifacts: &Artifacts,
) -> Output {
    let texts = || output.content.iter().filter_map(ContentBlock::as_text);
    let n_bytes = texts().map(str::len).sum::<usize>() + output.value.as_ref().map_or(0, length);
    if n_bytes <= max {
        return output;
    }
    let value = output.value.as_ref().map(ToString::to_string);
    let mut kept = output.artifacts.clone();
    let mut content = Vec::new();
    let parts = [
        ("output.json", "application/json", value.unwrap_or_default()),
        ("output.txt", "text/plain; charset=utf-8", texts().collect::<Vec<_>>().join("\n")),
    ];
    let room = max / parts.iter().filter(|(_, _, text)| !text.is_empty()).count().max(1);
    for (title, media_type, text) in parts {
        if text.is_empty() {
            continue;
        }
        let shown = ends(&text, room);
        let whole = artifacts.keep(session, title, media_type, text.clone().into_bytes()).await;
        let (shown, artifact) = match whole {
            Ok(artifact) => {
                (shown.with(&format!("the whole is artifact {}", artifact.id)), Some(artifact))
            }
            Err(error) => (shown.with(&format!("the whole is not kept: {error}")), None),
        };
        content.push(ContentBlock::Text { text: shown });
        if let Some(artifact) = artifact {
            content.push(ContentBlock::Artifact { artifact: artifact.clone() });
            kept.push(artifact);
        }
    }
    let others = output.content.into_iter().filter(|block| block.as_text().is_none());
    content.extend(others);
    Output { content, value: None, artifacts: kept }
}

async fn bounded_failure(
    failure: Failure,
    max: usize,
    session: SessionId,
    artifacts: &Artifacts,
) -> Failure {
    let message = match failure.message.len() > MESSAGE_MAX {
        true => ends(&failure.message, MESSAGE_MAX).with("the rest is left out"),
        false => failure.message,
    };
    let partial = match failure.partial {
        Some(partial) if length(&partial) > max => {
            Some(kept_partial(&partial, session, artifacts).await)
        }
        partial => partial,
    };
    Failure { message, partial, ..failure }
}

async fn kept_partial(partial: &Value, session: SessionId, artifacts: &Artifacts) -> Value {
    let bytes = partial.to_string().into_bytes();
    match artifacts.keep(session, "partial.json", "application/json", bytes).await {
        Ok(artifact) => json!({ "artifact": artifact }),
        Err(error) => json!({ "left_out": error.to_string() }),
    }
}

/// Returns the length of a value's JSON text, without making it.
fn length(value: &Value) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // A value always prints, and counting never fails.
    serde_json::to_writer(&mut counter, value).unwrap_or_default();
    counter.0
}

/// The beginning and the end of a text.
struct Ends<'a> {
    head: &'a str,
    tail: &'a str,
    left_out: usize,
}

/// Returns the ends of a text: more of its beginning, for that says what it is.
fn ends(text: &str, max: usize) -> Ends<'_> {
    let head = text.floor_char_boundary(max * 2 / 3);
    let tail = text.ceil_char_boundary(text.len().saturating_sub(max / 3)).max(head);
    let (head, rest) = text.split_at(head);
    let (middle, tail) = rest.split_at(tail - head.len());
    Ends { head, tail, left_out: middle.len() }
}

impl Ends<'_> {
    fn with(&self, note: &str) -> String {
        let Self { head, tail, left_out } = self;
        format!("{head}\n[… {left_out} bytes left out; {note} …]\n{tail}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_text_are_whole_characters() {
        let text = "é".repeat(1000);
        for max in [0, 1, 2, 3, 7, 100, 1999] {
            let ends = ends(&text, max);
            assert!(ends.head.len() + ends.tail.len() <= max + 2);
            assert_eq!(ends.head.len() + ends.tail.len() + ends.left_out, text.len());
        }
    }
}
