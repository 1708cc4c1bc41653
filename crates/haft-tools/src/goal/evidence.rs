//! What shows that a criterion is met.
//!
//! Saying so shows nothing. Only the result of a call does, of a tool that looks at the world and
//! not at what the session itself said; and of that result only what the call's arguments, or
//! those of an earlier call, did not put there.

use haft_core::session::Goal;

use super::Facts;
use crate::catalogue;
use crate::chronicle::{Done, Run, SpanEnd};
use crate::recall::Query;

/// From here on a text is about a criterion.
pub(super) const MATCH: u32 = 4;

/// What shows that a criterion is met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) tool: String,
    pub(super) call: String,
}

/// The criteria of a goal; its title, when nobody named one.
pub(super) fn criteria(goal: &Goal) -> Vec<&str> {
    match goal.criteria() {
        [] => vec![goal.title()],
        criteria => criteria.iter().map(String::as_str).collect(),
    }
}

/// Whether a text is about a criterion.
pub(super) fn claims(text: &str, criterion: &str) -> bool {
    Query::parse(criterion).score(text).score >= MATCH
}

/// The latest call whose result shows that a criterion is met.
pub(super) fn shown(facts: &Facts<'_>, runs: &[Run], criterion: &str) -> Option<Shown> {
    let query = Query::parse(criterion);
    let mut own_words: Vec<String> = Vec::new();
    let mut latest = None;
    for done in runs.iter().flat_map(|run| &run.calls) {
        let given = given(done);
        let restates = query.score(&given).score >= MATCH;
        own_words.extend(given.lines().map(plain).filter(|line| !line.is_empty()));
        let counts = done.seq > facts.since
            && done.end == Some(SpanEnd::Success)
            && !catalogue::looks_inward(&done.tool);
        if counts && !restates && is_met(&query, &not_said_before(&done.text, &own_words)) {
            latest = Some(Shown { tool: done.tool.clone(), call: done.call.to_string() });
        }
    }
    latest
}

/// A passage that has a few words of a long criterion is not about it.
fn is_met(query: &Query, text: &str) -> bool {
    let (found, of) = query.coverage(text);
    query.score(text).score >= MATCH && found * 3 >= of * 2
}

fn given(done: &Done) -> String {
    let mut texts = Vec::new();
    for value in done.arguments.values() {
        crate::chronicle::each_text(value, &mut texts);
    }
    texts.join("\n")
}

fn plain(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

fn not_said_before(text: &str, own_words: &[String]) -> String {
    let new = |line: &&str| {
        let line = plain(line);
        !own_words.iter().any(|own| own.contains(&line))
    };
    text.lines().filter(new).collect::<Vec<_>>().join("\n")
}
