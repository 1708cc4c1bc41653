//! Asking the person at the terminal to end a wait.

use std::num::NonZeroU32;

use haft_core::session::SuspensionKind;
use serde_json::{Map, Value, json};

use crate::api::Api;
use crate::edit::edited;
use crate::prompt::{Asked, Earlier, Lines, form};
use crate::terminal::{Paint, Tone, fitted, now, wait_card};
use crate::trouble::Trouble;

/// What a person says, as the API takes it; nothing when they leave it for later.
type Said = Option<Value>;

/// Shows a wait, asks, and sends what is said. Returns false when it is left for later.
pub(crate) async fn decide(api: &Api, lines: &mut Lines, wait: &Value) -> anyhow::Result<bool> {
    eprintln!("\n{}", wait_card(wait, now(), Paint::stderr()));
    lines.discard_what_was_typed_before().await;
    let mut earlier = None;
    loop {
        let said = match kind(wait) {
            Some(SuspensionKind::Approval) => approval(lines, wait).await?,
            Some(SuspensionKind::Elicitation) => question(lines, wait, earlier.as_ref()).await,
            Some(SuspensionKind::Settlement) => settlement(lines).await,
            Some(SuspensionKind::ClientExec | SuspensionKind::Child) | None => None,
        };
        let Some(mut said) = said else { return Ok(false) };
        said["round"] = wait["round"].clone();
        let (session, call) = (&wait["session"], &wait["call"]);
        let path = format!(
            "/haft/v1/sessions/{}/calls/{}/resolve",
            session.as_str().unwrap_or_default(),
            call.as_str().unwrap_or_default()
        );
        match api.post(&path, &said).await {
            Ok(_) => return Ok(true),
            // Someone else was first; what they said shows in the log.
            Err(error) if error.code() == "stale" => return Ok(true),
            Err(error) => earlier = asked_again(error, &said, wait)?,
        }
    }
}

fn kind(wait: &Value) -> Option<SuspensionKind> {
    serde_json::from_value(wait["kind"].clone()).ok()
}

/// What another answer would set right.
fn is_a_matter_of_words(error: &Trouble) -> bool {
    ["misfit", "invalid_request_error", "grant_never_applies", "no_tool"].contains(&error.code())
}

/// Complains of what was said, and returns what of it need not be said again; the error itself,
/// where no other words would help.
pub(crate) fn asked_again(
    error: Trouble,
    said: &Value,
    wait: &Value,
) -> Result<Option<Earlier>, Trouble> {
    if !is_a_matter_of_words(&error) {
        return Err(error);
    }
    let misfit = error.to_string();
    let complaint = format!("  {}", Paint::stderr().paint(Tone::Bad, &misfit));
    eprintln!("{}", fitted(&complaint, 8));
    Ok(Earlier::of(&said["value"], &misfit, &wait["answer_schema"]))
}

async fn approval(lines: &mut Lines, wait: &Value) -> anyhow::Result<Said> {
    let may_grant = wait["may_grant"].as_bool().unwrap_or(false);
    let paint = Paint::stderr();
    let key = |word: &str| {
        let (first, rest) = word.split_at(1);
        format!("{}{rest}", paint.paint(Tone::Bold, &format!("[{first}]")))
    };
    let choices: &[&str] = match may_grant {
        true => &["once", "session", "rule", "edit", "deny", "later"],
        false => &["once", "edit", "deny", "later"],
    };
    let shown = choices.iter().map(|word| key(word)).collect::<Vec<_>>().join("  ");
    loop {
        let Some(typed) = lines.ask(&format!("  {shown} > ")).await else { return Ok(None) };
        match typed.trim().to_lowercase().as_str() {
            "o" | "once" | "y" | "yes" => return Ok(Some(json!({ "type": "approve" }))),
            "s" | "session" if may_grant => {
                return Ok(Some(json!({ "type": "approve", "grant": {} })));
            }
            "r" | "rule" if may_grant => {
                if let Some(grant) = rule(lines, wait).await {
                    return Ok(Some(json!({ "type": "approve", "grant": grant })));
                }
            }
            "e" | "edit" => {
                if let Some(arguments) = edited(lines, &wait["arguments"]).await? {
                    return Ok(Some(json!({ "type": "approve", "arguments": arguments })));
                }
            }
            "d" | "deny" | "n" | "no" => {
                let note = lines.ask("  why? (reaches the model; nothing is fine) > ").await;
                let note = note.filter(|note| !note.trim().is_empty());
                return Ok(Some(json!({ "type": "deny", "note": note })));
            }
            "l" | "later" => return Ok(None),
            _ => eprintln!("  type the first letter of one of them"),
        }
    }
}

/// A standing permission for calls like this one: which arguments must be the same, how often.
async fn rule(lines: &mut Lines, wait: &Value) -> Option<Value> {
    let empty = Map::new();
    let arguments = wait["arguments"].as_object().unwrap_or(&empty);
    let mut when = Vec::new();
    for (name, value) in arguments {
        let shown = crate::terminal::shortened(&value.to_string(), 50);
        let named = crate::terminal::shortened(name, 50);
        let typed = lines.ask(&format!("  only where {named} is {shown}? [Y/n] > ")).await?;
        if !matches!(typed.trim().to_lowercase().as_str(), "n" | "no") {
            let field = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
            when.push(json!({ "field": field, "test": { "equals": value } }));
        }
    }
    let mut grant = json!({ "when": when });
    loop {
        let typed = lines.ask("  how many more times? [a number, or nothing for any] > ").await?;
        match (typed.trim(), typed.trim().parse::<NonZeroU32>()) {
            ("", _) => return Some(grant),
            (_, Ok(uses)) => {
                grant["uses"] = json!(uses);
                return Some(grant);
            }
            // Taking it for nothing would give more than was meant.
            (_, Err(_)) => eprintln!("  type a number from 1, or nothing"),
        }
    }
}

/// Asks for what a question wants to know.
pub(crate) async fn question(
    lines: &mut Lines,
    wait: &Value,
    earlier: Option<&Earlier>,
) -> Option<Value> {
    eprintln!("  {}", Paint::stderr().paint(Tone::Dim, "`/decline` answers nothing"));
    match form(lines, &wait["answer_schema"], earlier).await {
        Asked::Answer(value) => Some(json!({ "type": "answer", "value": value })),
        Asked::Declined => Some(json!({ "type": "deny" })),
        Asked::Left => None,
    }
}

async fn settlement(lines: &mut Lines) -> Said {
    loop {
        let typed = lines.ask("  [h]appened  [r]un again  [g]ive up  [l]ater > ").await?;
        let verdict = match typed.trim().to_lowercase().as_str() {
            "h" | "happened" => "happened",
            "r" | "run again" | "run-again" => "run_again",
            "g" | "give up" | "give-up" => "give_up",
            "l" | "later" => return None,
            _ => continue,
        };
        return Some(json!({ "type": "settle", "verdict": verdict }));
    }
}
