//! What tools say about each other.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use haft_core::ToolName;
use haft_core::tool::{Definition, Status};

use super::{Code, Finding, Report, Severity};
use crate::registry::Registered;

type Tools<'a> = BTreeMap<&'a ToolName, &'a Arc<Registered>>;

pub(super) fn check(tools: &[Arc<Registered>]) -> Vec<Finding> {
    let by_name: Tools<'_> = tools.iter().map(|tool| (tool.name(), tool)).collect();
    let mut findings = Vec::new();
    for tool in tools {
        let mut report = Report { tool: tool.name(), findings: Vec::new() };
        check_names(tool.spec(), &by_name, &mut report);
        findings.append(&mut report.findings);
    }
    findings.extend(cycles(tools, &by_name));
    findings.extend(overlaps(tools));
    findings
}

fn check_names(definition: &Definition, tools: &Tools<'_>, report: &mut Report<'_>) {
    for name in &definition.depends_on {
        if !tools.contains_key(name) {
            let code = (Severity::Error, Code::DependencyUnknown);
            report.add(code, "depends_on", format!("no tool `{name}`"), "register it, or drop it");
        }
    }
    if let Some(undo) = definition.undo.as_ref().filter(|undo| !tools.contains_key(&undo.tool)) {
        let code = (Severity::Error, Code::UndoUnknown);
        report.add(code, "undo", format!("no tool `{}`", undo.tool), "register it, or drop undo");
    }
    let routed = definition.routing.iter().flat_map(|routing| &routing.not_for);
    let routed = routed.map(|not_for| ("routing", not_for.instead.clone()));
    let told = alternatives(&definition.description).into_iter().map(|name| ("description", name));
    for (field, name) in routed.chain(told) {
        match tools.get(&name).map(|tool| tool.spec().status) {
            Some(Status::Active | Status::Unlisted) => {}
            Some(Status::Deprecated | Status::Removed) => {
                let code = (Severity::Warning, Code::AlternativeNotOffered);
                let found = format!("models are not offered `{name}`");
                report.add(code, field, found, "name a tool that is active");
            }
            None => {
                let code = (Severity::Error, Code::AlternativeUnknown);
                report.add(code, field, format!("no tool `{name}`"), "name a registered tool");
            }
        }
    }
}

/// Finds the tools that a description sends its reader to: "use `y` instead", "instead, use y".
pub(super) fn alternatives(description: &str) -> Vec<ToolName> {
    let words: Vec<&str> = description.split_whitespace().collect();
    let is = |at: Option<usize>, wanted: &str| {
        let word = at.and_then(|at| words.get(at));
        word.is_some_and(|word| bare(word).eq_ignore_ascii_case(wanted))
    };
    let target = |at: usize| {
        let word = words.get(at + 1)?;
        let named = word.contains('`') || word.contains('_');
        let instead = is(Some(at + 2), "instead") || is(at.checked_sub(1), "instead");
        let name = ToolName::new(bare(word)).ok()?;
        (named && instead).then_some(name)
    };
    (0..words.len()).filter(|&at| is(Some(at), "use")).filter_map(target).collect()
}

fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

/// Finds each circle once, at the first of its tools.
fn cycles(tools: &[Arc<Registered>], by_name: &Tools<'_>) -> Vec<Finding> {
    let mut done: HashMap<&ToolName, Visit> = HashMap::new();
    let mut findings = Vec::new();
    for tool in tools {
        let Some(circle) = circle(tool.name(), by_name, &mut done) else { continue };
        let mut report = Report { tool: tool.name(), findings: Vec::new() };
        let code = (Severity::Error, Code::DependencyCycle);
        let way: Vec<String> = circle.iter().take(8).map(|name| format!("`{name}`")).collect();
        report.add(code, "depends_on", way.join(" → "), "break the circle");
        findings.append(&mut report.findings);
    }
    findings
}

#[derive(Clone, Copy, PartialEq)]
enum Visit {
    Open,
    Closed,
}

/// Walks down from one tool, without recursion: a chain may be as long as the registry.
fn circle<'a>(
    start: &'a ToolName,
    tools: &Tools<'a>,
    visits: &mut HashMap<&'a ToolName, Visit>,
) -> Option<Vec<&'a ToolName>> {
    if visits.contains_key(start) {
        return None;
    }
    let dependencies = |name: &ToolName| {
        let tool = tools.get(name);
        tool.map(|tool| tool.spec().depends_on.as_slice()).unwrap_or_default()
    };
    let mut way = vec![(start, 0)];
    visits.insert(start, Visit::Open);
    let mut found = None;
    while let Some((name, next)) = way.last_mut() {
        let Some((name, _)) = dependencies(name).get(*next).and_then(|n| tools.get_key_value(n))
        else {
            let is_past_end = *next >= dependencies(name).len();
            *next += 1;
            if is_past_end {
                visits.insert(name, Visit::Closed);
                way.pop();
            }
            continue;
        };
        *next += 1;
        match visits.get(*name) {
            Some(Visit::Open) if found.is_none() => {
                let mut circle: Vec<&ToolName> = way.iter().map(|(name, _)| *name).collect();
                let from = circle.iter().position(|known| known == name).unwrap_or_default();
                circle.drain(..from);
                circle.push(name);
                found = Some(circle);
            }
            Some(_) => {}
            None => {
                visits.insert(name, Visit::Open);
                way.push((name, 0));
            }
        }
    }
    found
}

/// Words that mean the same to a model.
const SAME_VERB: &[&[&str]] = &[
    &["fetch", "get", "load", "read", "retrieve"],
    &["add", "create", "insert", "make", "new"],
    &["delete", "drop", "remove"],
    &["change", "edit", "modify", "update"],
    &["find", "lookup", "query", "search"],
];

fn overlaps(tools: &[Arc<Registered>]) -> Vec<Finding> {
    let mut by_sense: HashMap<String, &Arc<Registered>> = HashMap::new();
    let mut by_text: HashMap<String, &Arc<Registered>> = HashMap::new();
    let mut findings = Vec::new();
    for tool in tools.iter().filter(|tool| tool.is_advertised()) {
        let mut report = Report { tool: tool.name(), findings: Vec::new() };
        if let Some(other) = by_text.insert(sense_of_text(tool), tool) {
            let code = (Severity::Warning, Code::SameDescription);
            let found = format!("the same as that of `{}`", other.name());
            report.add(code, "description", found, "say what sets them apart");
        }
        if let Some(other) = by_sense.insert(sense_of_name(tool.name()), tool)
            && !tells_apart(tool, other)
            && !tells_apart(other, tool)
        {
            let code = (Severity::Warning, Code::Overlap);
            let found = format!("means the same as `{}` to a model", other.name());
            report.add(code, "name", found, "add `For …, use … instead` to one of them");
        }
        findings.append(&mut report.findings);
    }
    findings
}

fn sense_of_text(tool: &Registered) -> String {
    let words: Vec<&str> = tool.spec().description.split_whitespace().collect();
    words.join(" ").to_lowercase()
}

/// The name with one verb for all that mean the same, and without plurals.
fn sense_of_name(name: &ToolName) -> String {
    let verb = |word: &str| SAME_VERB.iter().find(|verbs| verbs.contains(&word)).copied();
    let words = name.as_str().split('_').map(|word| match verb(word) {
        Some([first, ..]) => (*first).to_owned(),
        _ => word.trim_end_matches('s').to_owned(),
    });
    words.collect::<Vec<_>>().join("_")
}

fn tells_apart(tool: &Registered, other: &Registered) -> bool {
    let routed = tool.spec().routing.iter().flat_map(|routing| &routing.not_for);
    routed.map(|not_for| &not_for.instead).any(|name| name == other.name())
        || alternatives(&tool.spec().description).contains(other.name())
}
