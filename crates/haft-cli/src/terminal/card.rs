//! A wait, as a person decides about it.

use haft_core::{Digest, Timestamp};
use serde_json::{Map, Value};

use super::style::{Paint, Tone};
use super::{diff, left, printable, shortened, width, wrapped};

/// All that is known of a wait: what would run, what it would change, and why someone is asked.
pub(crate) fn wait_card(wait: &Value, now: Timestamp, paint: Paint) -> String {
    let text = |member: &str| wait[member].as_str().unwrap_or_default();
    let title = wait["title"].as_str().map(|title| format!("  {title}")).unwrap_or_default();
    let expires = wait["expires_at"].as_i64().map(Timestamp::from_ms);
    let time = expires.map(|at| format!("  {} left", left(at, now))).unwrap_or_default();
    let mut lines = vec![format!(
        "{} {}{}{}",
        paint.paint(Tone::Warn, &format!("◆ {}", kind(text("kind")))),
        paint.paint(Tone::Bold, &printable(text("tool"))),
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

/// Every argument, whole. With a diff beside it, a long one is named with its size and digest.
fn shown_arguments(wait: &Value, has_diff: bool) -> Vec<String> {
    let Some(arguments) = wait["arguments"].as_object() else { return Vec::new() };
    let mut lines = Vec::new();
    for (name, value) in arguments {
        let (name, text) = (printable(name).replace('\n', "‹U+000A›"), plain(value));
        let is_long = text.contains('\n') || text.chars().count() > 72;
        match (is_long, has_diff) {
            (false, _) => lines.push(format!("{name}: {text}")),
            (true, true) => lines.push(format!("{name}: {}", measure(value))),
            (true, false) => {
                lines.push(format!("{name}: {}", measure(value)));
                lines.extend(text.lines().map(|line| format!("  {line}")));
            }
        }
    }
    lines
}

/// How long a value is, and what tells it from every other one.
fn measure(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (n_chars, n_lines) = (text.chars().count(), text.lines().count());
    let digest = Digest::of_bytes(text.as_bytes()).to_string();
    let digest: String = digest.chars().take(16).collect();
    match n_lines {
        0 | 1 => format!("({n_chars} characters, {digest}…)"),
        n_lines => format!("({n_chars} characters in {n_lines} lines, {digest}…)"),
    }
}

/// Why someone is asked: the findings that decided, or that nobody knows what happened.
fn reasons(wait: &Value) -> Vec<String> {
    if wait["kind"] == "settlement" {
        let how = match (wait["reason"].as_str(), wait["in_doubt_because"].as_str()) {
            (Some("restored"), _) => {
                "the store was restored from a backup, and the call may have run since".to_owned()
            }
            (_, Some(because)) => format!("it ended without a result: {}", printable(because)),
            (_, None) => "its process died while it ran".to_owned(),
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
    let each = arguments
        .iter()
        .map(|(name, value)| format!("{}={}", shortened(name, 60), shortened(&plain(value), 60)));
    each.collect::<Vec<_>>().join(" ")
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => printable(text),
        other => printable(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn card(arguments: &Value) -> String {
        let wait = json!({ "kind": "approval", "tool": "pay", "arguments": arguments });
        wait_card(&wait, Timestamp::from_ms(0), Paint::Plain)
    }

    #[test]
    fn the_name_of_an_argument_cannot_hide_or_forge_another() {
        let shown = card(&json!({ "a\u{1b}[2J\n  amount: 1": "x", "amount": 900 }));
        assert!(shown.contains("a‹U+001B›[2J‹U+000A›  amount: 1: x"), "{shown}");
        assert!(shown.contains("\n  amount: 900"), "{shown}");
    }

    #[test]
    fn a_long_argument_is_shown_whole_with_its_size_and_digest() {
        let script: String = (0..400).map(|n| format!("line {n}\n")).collect();
        let shown = card(&json!({ "script": script }));
        assert!(shown.contains("script: (3490 characters in 400 lines, "), "{shown}");
        assert!(shown.contains("line 0\n") && shown.contains("line 399"), "{shown}");
        let pushed = card(&json!({ "command": format!("ls{}; rm -rf ~", " ".repeat(4000)) }));
        assert!(pushed.contains("ls‹4000 spaces›; rm -rf ~"), "{pushed}");
    }
}
