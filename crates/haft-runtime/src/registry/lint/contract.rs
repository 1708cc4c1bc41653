//! Document 001's routing contract: what a description must say to be routed by.

use haft_core::tool::Definition;
use serde_json::Value;

use super::{Code, Report, Severity};

/// Shorter says nothing about when to use a tool.
const CHARS_MIN: usize = 20;
/// One or two sentences and a disambiguation; longer is not read.
const CHARS_MAX: usize = 600;

pub(super) fn check(definition: &Definition, report: &mut Report<'_>) {
    check_name(definition, report);
    check_description(definition, report);
    check_arguments(definition, report);
    let facets = definition.resolved_facets();
    let category = definition.category.and_then(|category| category.contradiction(&facets));
    if let Some(found) = category {
        let code = (Severity::Error, Code::CategoryContradicted);
        report.add(
            code,
            "category",
            found,
            "declare what the tool does, or leave the category out",
        );
    }
}

fn check_name(definition: &Definition, report: &mut Report<'_>) {
    if !definition.name.as_str().trim_matches('_').contains('_') {
        let code = (Severity::Note, Code::NameShape);
        report.add(code, "name", "one word", "prefer a verb and a noun, such as `get_weather`");
    }
}

fn check_description(definition: &Definition, report: &mut Report<'_>) {
    const FIELD: &str = "description";
    let text = definition.description.trim();
    let lower = text.to_lowercase();
    let length = text.chars().count();
    let routed = definition.routing.as_ref().is_some_and(|r| !r.use_when.trim().is_empty());
    if !routed && !lower.contains("use when") {
        let code = (Severity::Warning, Code::UseWhenMissing);
        report.add(code, FIELD, "no trigger condition", "add `Use when …`: models route by it");
    }
    if length < CHARS_MIN {
        let code = (Severity::Warning, Code::TooShort);
        report.add(code, FIELD, format!("{length} characters"), "say what it does and when");
    }
    if length > CHARS_MAX {
        let code = (Severity::Warning, Code::TooLong);
        let fix = "keep to what it does, when to use it and when not";
        report.add(code, FIELD, format!("{length} characters"), fix);
    }
    if lower.split_whitespace().next().is_some_and(|word| word == "returns" || word == "return") {
        let code = (Severity::Warning, Code::StartsWithResult);
        report.add(code, FIELD, "starts with what comes back", "start with what it does");
    }
    let words = || lower.split(|c: char| !c.is_alphanumeric());
    if let Some(word) = words().find(|word| ["might", "maybe", "possibly"].contains(word)) {
        let code = (Severity::Note, Code::Hedges);
        report.add(code, FIELD, format!("`{word}`"), "say what it does, without hedging");
    }
}

fn check_arguments(definition: &Definition, report: &mut Report<'_>) {
    const FIELD: &str = "input_schema";
    let schema = definition.input_schema.value();
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let described = ["description", "$ref", "const"].iter().any(|k| property.get(*k).is_some());
        if !described {
            let code = (Severity::Note, Code::ArgumentUndescribed);
            report.add(code, FIELD, format!("`{name}` is not described"), "say what it is for");
        }
    }
    let is_closed = ["additionalProperties", "unevaluatedProperties"]
        .iter()
        .any(|keyword| schema.get(*keyword).is_some());
    if !is_closed {
        let code = (Severity::Note, Code::ArgumentsOpen);
        let found = "arguments that it does not name are let through";
        report.add(code, FIELD, found, "add `\"additionalProperties\": false`");
    }
}
