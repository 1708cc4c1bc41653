//! No result is too large for the model: what does not fit becomes an artifact, whoever made it.

use haft_core::session::{Preview, Returned};
use haft_core::{ArtifactRef, CallResult, ContentBlock, Directives, Failure, Output, SessionId};
use serde_json::{Map, Value, json};

use crate::artifacts::Artifacts;

/// How much of a failure's text, or of another text beside a result, is kept: enough for a stack
/// of causes.
const MESSAGE_MAX: usize = 8 << 10;
/// How much of a difference an approver is shown; more is not read before a yes.
const DIFF_MAX: usize = 64 << 10;
/// How many targets an approver is shown.
const TARGETS_MAX: usize = 256;
/// How long one of them may be.
const TARGET_MAX: usize = 1 << 10;
/// How many artifacts stand in one result.
const ARTIFACTS_MAX: usize = 64;
/// How long the words about an artifact may be.
const TITLE_MAX: usize = 256;

/// Returns whether a call returned no more than may be recorded. Most do.
pub(super) fn is_within(returned: &Returned, max: u64) -> bool {
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    let Directives { next_action, user_message, .. } = &returned.directives;
    let short = |text: &Option<String>| text.as_ref().is_none_or(|text| text.len() <= MESSAGE_MAX);
    let result = match &returned.result {
        CallResult::Ok(output) => {
            output.artifacts.is_empty() && content_fits(output, max).is_some()
        }
        CallResult::Err(failure) => {
            failure.message.len() <= MESSAGE_MAX
                && short(&failure.debug)
                && failure.partial.as_ref().is_none_or(|partial| fits(partial, max))
        }
    };
    result && short(next_action) && short(user_message) && fits_map(&returned.extra, max)
}

/// Returns some if texts and value fit together, and nothing else is there.
fn content_fits(output: &Output, max: usize) -> Option<()> {
    let mut left = max;
    for block in &output.content {
        left = left.checked_sub(block.as_text()?.len())?;
    }
    output.value.as_ref().is_none_or(|value| fits(value, left)).then_some(())
}

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
    let extra = match fits_map(&returned.extra, max) {
        true => returned.extra,
        false => kept_extra(returned.extra, session, artifacts).await,
    };
    Returned { result, directives: bounded_directives(returned.directives), extra }
}

/// Bounds what a provider says about a result of its own.
pub(super) fn meta(meta: Value) -> Value {
    match fits(&meta, MESSAGE_MAX) {
        true => meta,
        false => json!({ "left_out": format!("{} bytes", length(&meta)) }),
    }
}

/// Bounds what an approver is shown. What is cut says so, and is kept whole as an artifact.
pub(super) async fn preview(
    preview: Preview,
    session: SessionId,
    artifacts: &Artifacts,
) -> Preview {
    let Preview { fingerprint, mut targets, diff, trouble } = preview;
    let n_more = targets.len().saturating_sub(TARGETS_MAX);
    targets.truncate(TARGETS_MAX);
    targets.iter_mut().for_each(|target| cut(target, TARGET_MAX));
    targets.extend((n_more > 0).then(|| format!("… and {n_more} more")));
    let diff = match diff {
        Some(diff) if diff.len() > DIFF_MAX => {
            let kept = artifacts.keep(session, "preview.diff", "text/plain", diff.clone().into());
            Some(ends(&diff, DIFF_MAX).with(&match kept.await {
                Ok(artifact) => format!("the whole is artifact {}", artifact.id),
                Err(error) => format!("the whole is not kept: {error}"),
            }))
        }
        diff => diff,
    };
    let trouble = trouble.map(|mut trouble| {
        cut(&mut trouble, MESSAGE_MAX);
        trouble
    });
    Preview { fingerprint, targets, diff, trouble }
}

fn bounded_directives(mut directives: Directives) -> Directives {
    let said = [&mut directives.next_action, &mut directives.user_message];
    said.into_iter().flatten().for_each(|text| cut(text, MESSAGE_MAX));
    directives
}

async fn kept_extra(
    extra: Map<String, Value>,
    session: SessionId,
    artifacts: &Artifacts,
) -> Map<String, Value> {
    let kept = kept_value("extra.json", &Value::Object(extra), session, artifacts).await;
    kept.as_object().cloned().unwrap_or_default()
}

async fn bounded_output(
    mut output: Output,
    max: usize,
    session: SessionId,
    artifacts: &Artifacts,
) -> Output {
    output.artifacts.truncate(ARTIFACTS_MAX);
    output.artifacts.iter_mut().for_each(cut_words);
    bound_references(&mut output.content);
    let texts = || output.content.iter().filter_map(ContentBlock::as_text);
    let n_bytes = texts().map(str::len).sum::<usize>();
    let left = max.checked_sub(n_bytes);
    if left.is_some_and(|left| output.value.as_ref().is_none_or(|value| fits(value, left))) {
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
    let debug = failure.debug.map(|mut debug| {
        cut(&mut debug, MESSAGE_MAX);
        debug
    });
    let partial = match failure.partial {
        Some(partial) if !fits(&partial, max) => {
            Some(kept_value("partial.json", &partial, session, artifacts).await)
        }
        partial => partial,
    };
    Failure { message, debug, partial, ..failure }
}

async fn kept_value(
    title: &str,
    value: &Value,
    session: SessionId,
    artifacts: &Artifacts,
) -> Value {
    let bytes = value.to_string().into_bytes();
    match artifacts.keep(session, title, "application/json", bytes).await {
        Ok(artifact) => json!({ "artifact": artifact }),
        Err(error) => json!({ "left_out": error.to_string() }),
    }
}

fn bound_references(content: &mut Vec<ContentBlock>) {
    let mut n_references = 0;
    content.retain_mut(|block| match block {
        ContentBlock::Text { .. } => true,
        ContentBlock::Artifact { artifact } => {
            n_references += 1;
            cut_words(artifact);
            n_references <= ARTIFACTS_MAX
        }
    });
}

fn cut_words(artifact: &mut ArtifactRef) {
    cut(&mut artifact.media_type, TITLE_MAX);
    artifact.title.iter_mut().for_each(|title| cut(title, TITLE_MAX));
}

/// Leaves the beginning and the end of a text.
fn cut(text: &mut String, max: usize) {
    if text.len() > max {
        *text = ends(text, max).with("the rest is left out");
    }
}

fn fits_map(map: &Map<String, Value>, max: usize) -> bool {
    map.iter().map(|(key, value)| key.len() + length(value)).sum::<usize>() <= max
}

/// Returns whether a value's JSON text is no longer than this.
fn fits(value: &Value, max: usize) -> bool {
    /// No number is written longer.
    const NUMBER_MAX: usize = 32;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) if max >= NUMBER_MAX => true,
        // Every byte takes six at most once it is escaped.
        Value::String(text) if text.len() < max / 8 => true,
        value => length(value) <= max,
    }
}

/// Returns the length of a value's JSON text, without making it.
pub(super) fn length(value: &Value) -> usize {
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
