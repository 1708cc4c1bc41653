//! The loop directive: how a model says that it wants to come back to something (document 002).
//!
//! One tagged JSON object at the end of an answer. It is taken out of the text before anyone is
//! shown it; one that cannot be read stays text, and directs nothing.

use haft_core::Millis;
use haft_core::session::{Learning, LearningKind, Priority};
use haft_runtime::{LoopDirective, WakeWish};
use serde::Deserialize;

pub(crate) const TAG: (&str, &str) = ("<loop_directive>", "</loop_directive>");

/// What a model that may direct its loop is told about it.
pub(crate) const INSTRUCTIONS: &str = "\
You may end an answer with one directive about how your work goes on:\n\
<loop_directive>{\"outcome\": \"sleep\" or \"continue\", \"summary\": where you stand, \
\"followUpSeconds\": when to go on, \"queuedWakes\": [{\"reason\", \"delaySeconds\", \"note\", \
\"dedupeKey\", \"priority\": \"low\", \"normal\" or \"high\"}], \"learnings\": [{\"kind\": \
\"lesson\", \"correction\" or \"error\", \"title\", \"detail\", \"dedupeKey\"}]}</loop_directive>\n\
At most three wakes within a day, and three learnings. Without a directive you sleep until \
someone speaks.";

/// After how long a model that wants to go on is asked again, when it does not say.
const FOLLOW_UP: Millis = Millis::from_secs(300);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    outcome: Outcome,
    summary: Option<String>,
    follow_up_seconds: Option<u64>,
    #[serde(default)]
    queued_wakes: Vec<WrittenWake>,
    #[serde(default)]
    learnings: Vec<WrittenLearning>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Sleep,
    Continue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenWake {
    reason: String,
    delay_seconds: u64,
    note: Option<String>,
    dedupe_key: Option<String>,
    #[serde(default)]
    priority: Priority,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenLearning {
    kind: LearningKind,
    title: String,
    detail: String,
    #[serde(default)]
    promote_to_memory: bool,
    dedupe_key: Option<String>,
}

/// Takes the directive out of what a model wrote.
pub(crate) fn read(text: &str) -> (String, Option<LoopDirective>) {
    let found = text.rsplit_once(TAG.0).and_then(|(before, after)| {
        let (body, rest) = after.split_once(TAG.1)?;
        let written: Written = serde_json::from_str(body).ok()?;
        Some((format!("{}{rest}", before.trim_end()), written))
    });
    match found {
        Some((said, written)) => (said.trim_end().to_owned(), Some(written.into())),
        None => (text.to_owned(), None),
    }
}

impl From<Written> for LoopDirective {
    fn from(written: Written) -> Self {
        let after = written.follow_up_seconds.map_or(FOLLOW_UP, Millis::from_secs);
        Self {
            follow_up: (written.outcome == Outcome::Continue).then_some(after),
            summary: written.summary,
            wakes: written.queued_wakes.into_iter().map(WakeWish::from).collect(),
            learnings: written.learnings.into_iter().map(Learning::from).collect(),
        }
    }
}

impl From<WrittenWake> for WakeWish {
    fn from(wake: WrittenWake) -> Self {
        let WrittenWake { reason, delay_seconds, note, dedupe_key, priority } = wake;
        let after = Millis::from_secs(delay_seconds.max(1));
        Self { after, reason, note, dedupe_key, priority }
    }
}

impl From<WrittenLearning> for Learning {
    fn from(learning: WrittenLearning) -> Self {
        let WrittenLearning { kind, title, detail, promote_to_memory, dedupe_key } = learning;
        Self { kind, title, detail, promote: promote_to_memory, dedupe_key }
    }
}

/// Passes on what a model says while it says it, up to its directive.
#[derive(Debug, Default)]
pub(crate) struct UpToDirective {
    held: String,
    is_over: bool,
}

impl UpToDirective {
    /// Takes the next piece and returns what of it may be shown by now.
    pub(crate) fn next(&mut self, piece: &str) -> String {
        if self.is_over {
            return String::new();
        }
        self.held.push_str(piece);
        let mut shown = std::mem::take(&mut self.held);
        let tag = TAG.0;
        if let Some(at) = shown.find(tag) {
            shown.truncate(at);
            self.is_over = true;
            return shown;
        }
        let begun = (1..tag.len()).rev().find(|n| shown.ends_with(&tag[..*n])).unwrap_or(0);
        self.held = shown.split_off(shown.len() - begun);
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // S2-6: a directive is no tool; it stands at the end of an answer.
    #[test]
    fn s2_6_a_directive_is_taken_out_of_the_text_and_read_by_the_letter() {
        let text = "Done for now.\n<loop_directive>{\"outcome\":\"continue\",\"summary\":\"half\",\
            \"queuedWakes\":[{\"reason\":\"build\",\"delaySeconds\":60,\"dedupeKey\":\"b\",\
            \"priority\":\"high\"}],\"learnings\":[{\"kind\":\"lesson\",\"title\":\"t\",\
            \"detail\":\"d\",\"promoteToMemory\":true}]}</loop_directive>";
        let (said, directive) = read(text);
        let directive = directive.unwrap();
        assert_eq!((said.as_str(), directive.follow_up), ("Done for now.", Some(FOLLOW_UP)));
        assert_eq!(directive.wakes[0].after, Millis::from_secs(60));
        assert_eq!(directive.wakes[0].priority, Priority::High);
        assert!(directive.learnings[0].promote);
        for odd in
            ["<loop_directive>{}</loop_directive>", "<loop_directive>{\"outcome\":\"sleep\"}"]
        {
            assert_eq!(read(odd), (odd.to_owned(), None));
        }
    }

    #[test]
    fn what_is_shown_live_ends_before_the_directive_wherever_it_is_cut() {
        let text = "a < b <loop> fine <loop_directive>{\"outcome\":\"sleep\"}</loop_directive>";
        for size in 1..text.len() {
            let mut shown = String::new();
            let mut live = UpToDirective::default();
            for piece in text.as_bytes().chunks(size) {
                shown.push_str(&live.next(std::str::from_utf8(piece).unwrap()));
            }
            assert_eq!(shown, "a < b <loop> fine ");
        }
    }
}
