//! Text that is not what it seems: hidden from people, or meant to steer the model.
//!
//! Descriptions of foreign tools are read by a model as if we had written them. What is found here
//! is a reason to have a person look, not a filter: an attacker has more words than any list.

use haft_core::tool::Definition;
use serde_json::Value;

use super::{Code, Report, Severity};

/// Phrases that no description of a tool needs.
const INSTRUCTIONS: &[&str] = &[
    "</tool",
    "<important>",
    "<instruction",
    "<secret>",
    "<system>",
    "before using any other tool",
    "before using this tool, read",
    "disregard all",
    "disregard previous",
    "disregard the above",
    "do not inform the user",
    "do not mention this",
    "do not tell the user",
    "don't tell the user",
    "forget your instructions",
    "ignore all previous",
    "ignore any previous",
    "ignore previous",
    "ignore prior",
    "ignore the above",
    "ignore your instructions",
    "never tell the user",
    "new instructions:",
    "override your instructions",
    "reveal your system prompt",
    "without telling the user",
    "you are now",
    "~/.ssh",
];

pub(super) fn check(definition: &Definition, report: &mut Report<'_>) {
    let mut look = |field, text: &str| check_text(field, text, report);
    look("description", &definition.description);
    if let Some(routing) = &definition.routing {
        let cases = routing.not_for.iter().map(|not_for| &not_for.case);
        let parts = [&routing.does, &routing.use_when].into_iter();
        parts.chain(cases).chain(&routing.source).for_each(|text| look("routing", text));
    }
    let display = &definition.display;
    display.label.iter().chain(&display.detail).for_each(|text| look("display", text));
    definition.tags.iter().for_each(|text| look("tags", text));
    each_text(definition.input_schema.value(), &mut |text| look("input_schema", text));
    if let Some(schema) = &definition.output_schema {
        each_text(schema.value(), &mut |text| look("output_schema", text));
    }
}

/// Visits every text of a document, names included: a model reads all of them.
fn each_text(value: &Value, visit: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(items) => items.iter().for_each(|item| each_text(item, visit)),
        Value::Object(members) => {
            for (name, value) in members {
                visit(name);
                each_text(value, visit);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn check_text(field: &'static str, text: &str, report: &mut Report<'_>) {
    if let Some(found) = text.chars().find(|&c| is_invisible(c)) {
        let code = (Severity::Error, Code::InvisibleText);
        let found = format!("U+{:04X}, which nobody sees", u32::from(found));
        report.add(code, field, found, "remove it, and ask where the text came from");
    }
    if let Some(word) = text.split(|c: char| !c.is_alphabetic()).find(|word| mixes_scripts(word)) {
        let code = (Severity::Error, Code::MixedScripts);
        let word: String = word.chars().take(40).collect();
        let found = format!("`{word}` mixes letters that look alike");
        report.add(code, field, found, "spell it in one script");
    }
    let plain = plain(text);
    if let Some(phrase) = INSTRUCTIONS.iter().find(|phrase| plain.contains(**phrase)) {
        let code = (Severity::Error, Code::Instruction);
        let fix = "describe the tool only; a person must look before a model reads it";
        report.add(code, field, format!("`{phrase}`"), fix);
    }
}

/// The text as a model takes it: without case, spacing and what cannot be seen.
fn plain(text: &str) -> String {
    let seen: String = text.chars().filter(|&c| !is_invisible(c)).collect();
    let words: Vec<&str> = seen.split_whitespace().collect();
    words.join(" ").to_lowercase()
}

fn is_invisible(c: char) -> bool {
    let is_space = matches!(c, '\n' | '\r' | '\t');
    (c.is_control() && !is_space)
        || matches!(
            c,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{202a}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

fn mixes_scripts(word: &str) -> bool {
    let latin = word.chars().any(|c| c.is_ascii_alphabetic());
    // Greek, Cyrillic and Armenian have letters that cannot be told from Latin ones.
    let similar = word.chars().any(|c| matches!(c, '\u{370}'..='\u{58f}'));
    // µ and Ω stand before and after Latin letters in units.
    let is_unit = word.chars().count() <= 3;
    latin && similar && !is_unit
}
