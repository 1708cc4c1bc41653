//! A wait, as a person decides about it.

use haft_core::Timestamp;
use serde_json::{Map, Value};

use super::style::{Paint, Tone};
use super::{diff, left, printable, shortened, width, wrapped};

/// How many lines of one argument are shown.
const ARGUMENT_LINES_MAX: usize = 12;

/// All that is known of a wait: what would run, what it would change, and why someone is asked.
pub(crate) fn wait_card(wait: &Value, now: Timestamp, paint: Paint) -> String {
    let text = |member: &str| wait[member].as_str().unwrap_or_default();
    let title = wait["title"].as_str().map(|title| format!("  {title}")).unwrap_or_default();
    let expires = wait["expires_at"].as_i64().map(Timestamp::from_ms);
    let time = expires.map(|at| format!("  {} left", left(at, now))).unwrap_or_default();
    let mut lines = vec![format!(
        "{} {}{}{}",
        paint.paint(Tone::Warn, &format!("◆ {}", kind(text("kind")))),
        paint.paint(Tone::Bold, text("tool")),
        printable(&title),
        paint.paint(Tone::Dim, &time)
    )];
    lines.extend(again(wait).map(|again| paint.paint(Tone::Warn, again)));
    lines.extend(effect(wait).map(|effect| paint.paint(Tone::Dim, &effect)));
    let preview = &wait["preview"];
    lines.extend(shown_arguments(wait, preview["diff"].is_string()));
    if let Some(changes) = preview["diff"].as_str() {
        lines.extend(diff(changes, paint).lines().map(str::to_owned));
    }
    let more = [
        ("trouble", &preview["trouble"]),
        ("the tool changed", &wait["changes"]),
        ("may not run again", &wait["barred"]),
    ];
    for (what, said) in more {
        let said = said.as_str().map(printable);
        lines.extend(said.map(|said| {
            prose(&format!("{} {said}", paint.paint(Tone::Warn, &format!("{what}:"))))
        }));
    }
    lines.extend(reasons(wait).iter().map(|reason| paint.paint(Tone::Dim, &prose(reason))));
    lines.join("\n  ")
}

/// A sentence below the card's title; arguments and diffs are shown exactly as they are.
fn prose(text: &str) -> String {
    match width() {
        Some(width) => wrapped(text, width - 2, 4),
        None => text.to_owned(),
    }
}

fn kind(word: &str) -> &str {
    match word {
        "approval" => "Approval",
        "elicitation" => "Question",
        "client_exec" => "Runs in a client",
        "settlement" => "In doubt",
        "child" => "A sub-agent",
        other => other,
    }
}

fn effect(wait: &Value) -> Option<String> {
    let mode = match wait["mode"].as_str()? {
        "read" => "only looks",
        "safe_write" => "changes are bounded",
        "destructive" => "cannot simply be taken back",
        "local" => "touches this machine",
        "external" => "talks to an outside service",
        other => other,
    };
    let reversal = if wait["reversal"] == "undo" { ", can be undone" } else { "" };
    Some(format!("{mode}{reversal}"))
}

/// Why someone is asked once more.
fn again(wait: &Value) -> Option<&'static str> {
    Some(match wait["reason"].as_str()? {
        "edited" => "the arguments were edited; this is what they would do",
        "world_moved" => "it would now do something else than was shown; look again",
        "redefined" => "the tool changed since it was shown",
        _ => return None,
    })
}

/// With a diff beside them, only the arguments that say where.
fn shown_arguments(wait: &Value, has_diff: bool) -> Vec<String> {
    let Some(arguments) = wait["arguments"].as_object() else { return Vec::new() };
    let mut lines = Vec::new();
    for (name, value) in arguments {
        let text = plain(value);
        let is_long = text.contains('\n') || text.chars().count() > 72;
        match (is_long, has_diff) {
            (false, _) => lines.push(format!("{name}: {text}")),
            (true, true) => {}
            (true, false) => {
                lines.push(format!("{name}:"));
                let n_lines = text.lines().count();
                lines.extend(text.lines().take(ARGUMENT_LINES_MAX).map(|line| format!("  {line}")));
                if n_lines > ARGUMENT_LINES_MAX {
                    lines.push(format!("  … {} lines more", n_lines - ARGUMENT_LINES_MAX));
                }
            }
        }
    }
    lines
}

/// Why someone is asked: the findings that decided, or that nobody knows what happened.
fn reasons(wait: &Value) -> Vec<String> {
    if wait["kind"] == "settlement" {
        let how = match wait["in_doubt_because"].as_str() {
            Some(because) => format!("it ended without a result: {}", printable(because)),
            None => "its process died while it ran".to_owned(),
        };
        return vec![format!("why: {how}; look whether it took effect")];
    }
    let decision = &wait["derivation"]["decision"];
    let findings = wait["derivation"]["findings"].as_array().cloned().unwrap_or_default();
    let decisive =
        findings.iter().filter(|finding| finding["verdict"] == *decision && decision != "allow");
    decisive
        .filter_map(|finding| finding["reason"].as_str())
        .map(|reason| format!("why: {}", printable(reason)))
        .collect()
}

/// The arguments on one line, for a list.
pub(crate) fn arguments_line(arguments: &Map<String, Value>) -> String {
    let each =
        arguments.iter().map(|(name, value)| format!("{name}={}", shortened(&plain(value), 60)));
    each.collect::<Vec<_>>().join(" ")
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => printable(text),
        other => printable(&other.to_string()),
    }
}
