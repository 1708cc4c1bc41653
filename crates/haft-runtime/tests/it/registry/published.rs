//! Public tool definitions and calls: every definition registers, every call is judged rightly.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use haft_core::ToolAlias;
use haft_core::tool::{Definition, Schema};
use haft_runtime::registry::{Refusal, Registered, Registry};
use haft_runtime::schema::Misfit;
use serde_json::Value;

use super::{lines, tool};
use crate::corpora;

/// A public corpus: its tools under names of our own, found by what the corpus calls them.
pub(super) struct Corpus {
    registry: Registry,
    count: usize,
}

impl Corpus {
    /// Registers every tool of a file; `owner` tells tools of the same name apart.
    pub(super) fn load(file: &str, owner: &str) -> Self {
        let text = corpora::read(file);
        let corpus = Self { registry: Registry::new(), count: lines(&text).count() };
        for (at, line) in lines(&text).enumerate() {
            let name = line["name"].as_str().unwrap();
            let canonical: String = name.chars().take(40).map(canonical).collect();
            let canonical = format!("t_{canonical}_{at}x");
            let schema = Schema::from_value(&line["input_schema"]).unwrap();
            let described = line["description"].as_str().unwrap().to_owned();
            let mut definition = Definition::new(canonical.parse().unwrap(), described, schema);
            let alias = ToolAlias::new(name).unwrap();
            definition.aliases.insert(line[owner].as_str().unwrap().to_owned(), alias);
            corpus.registry.register(tool(definition)).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
        assert_eq!(corpus.registry.len(), corpus.count, "{file}");
        corpus
    }

    pub(super) fn find(&self, owner: &str, name: &str) -> Option<Arc<Registered>> {
        self.registry.by_alias(owner, name)
    }
}

fn canonical(c: char) -> char {
    if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Admits arguments as a provider would stream them.
fn admit(tool: &Registered, arguments: &Value) -> Result<(), Refusal> {
    tool.admit_text(arguments.to_string().as_bytes()).map(drop)
}

/// Returns whether a misfit names a place, or a member of it for keywords about members.
pub(super) fn names(misfit: &Misfit, path: &str, keyword: &str) -> bool {
    // The corpus writes the whole value both ways.
    let path = if path == "/" { "" } else { path };
    let about_members = ["required", "additionalProperties"].contains(&keyword);
    misfit.violations().iter().any(|violation| {
        let rest = violation.path.strip_prefix(path);
        rest.is_some_and(|rest| match rest.strip_prefix('/') {
            None => rest.is_empty() && !about_members,
            Some(member) => about_members && !member.contains('/'),
        })
    })
}

// D19: ground truth of BFCL validates; what breaks its own schema is refused where it breaks it.
#[test]
fn bfcl_calls_are_judged_as_the_corpus_says() {
    let corpus = Corpus::load("bfcl/tools.jsonl", "tool_id");
    let find = |line: &Value| corpus.find(text(&line["tool_id"]), text(&line["name"])).unwrap();
    let (mut calls, mut nonconforming) = (0, Reasons::default());
    for line in lines(&corpora::read("bfcl/calls.jsonl")) {
        admit(&find(&line), &line["arguments"]).unwrap_or_else(|e| panic!("{}: {e}", line["id"]));
        calls += 1;
    }
    for line in lines(&corpora::read("bfcl/calls_nonconforming.jsonl")) {
        let Err(Refusal::Invalid(misfit)) = admit(&find(&line), &line["arguments"]) else {
            panic!("{line}")
        };
        let errors = line["errors"].as_array().unwrap();
        let told = errors.iter().any(|e| names(&misfit, text(&e["path"]), text(&e["keyword"])));
        assert!(told, "{misfit} {line}");
        note(&mut nonconforming, errors);
    }
    let tools = corpus.count;
    println!("bfcl: {tools} tools register, {calls} calls fit, refused {nonconforming:?}");
    let expected = if corpora::is_whole() { (3364, 4857, 295) } else { (70, 98, 13) };
    assert_eq!((tools, calls, nonconforming.values().sum::<usize>()), expected);
}

// D19: every mutated call of BFCL is refused at its layer, by its path.
#[test]
fn bfcl_mutants_are_refused_by_their_path() {
    let corpus = Corpus::load("bfcl/tools.jsonl", "tool_id");
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for line in lines(&corpora::read("bfcl/mutants.jsonl")) {
        let (owner, name, layer) =
            (text(&line["tool_id"]), text(&line["name"]), text(&line["layer"]));
        let found = corpus.find(owner, name);
        let raw = line.get("arguments_text").map(text).map(ToOwned::to_owned);
        let raw = raw.unwrap_or_else(|| line["arguments"].to_string());
        match layer {
            "registry" => assert!(found.is_none(), "{line}"),
            "parse" => {
                let refusal = found.unwrap().admit_text(raw.as_bytes()).unwrap_err();
                assert!(matches!(refusal, Refusal::Malformed { .. }), "{refusal} {line}");
            }
            "schema" => judge(&found.unwrap(), &line, &raw),
            "strict" => judge(&closed(&found.unwrap()), &line, &raw),
            other => panic!("unknown layer {other}"),
        }
        *counts.entry((layer.to_owned(), text(&line["mutation"]).to_owned())).or_default() += 1;
    }
    println!("bfcl mutants refused: {} {counts:?}", counts.values().sum::<usize>());
    let n = counts.values().sum::<usize>();
    assert!(counts.len() == 17 && n > if corpora::is_whole() { 10_000 } else { 80 }, "{counts:?}");
}

fn judge(tool: &Registered, line: &Value, raw: &str) {
    let (path, keyword) = (text(&line["expect"]["path"]), text(&line["expect"]["keyword"]));
    match tool.admit_text(raw.as_bytes()).unwrap_err() {
        Refusal::Invalid(misfit) => assert!(names(&misfit, path, keyword), "{misfit} {line}"),
        // Arguments that are no object at all.
        Refusal::Malformed { message, .. } => {
            assert!(path.is_empty() && message.contains("object"), "{message} {line}");
        }
        Refusal::UnknownTool { message } => panic!("{message}"),
    }
}

/// The same tool with a schema that takes no unknown arguments.
pub(super) fn closed(open: &Registered) -> Arc<Registered> {
    let mut schema = open.spec().input_schema.value().clone();
    schema["additionalProperties"] = Value::Bool(false);
    let mut definition = Definition::clone(open.spec());
    definition.input_schema = Schema::from_value(&schema).unwrap();
    Registry::new().register(tool(definition)).unwrap()
}

/// Ground truth that breaks its own schema, by how it does.
type Reasons = BTreeMap<String, usize>;

/// Counts a call by what the corpus, which was checked by another validator, says is wrong.
fn note(reasons: &mut Reasons, errors: &[Value]) {
    let reason = |error: &Value| match (error["keyword"].as_str(), error.as_str()) {
        (Some(keyword), _) => keyword.to_owned(),
        (None, Some(message)) if message.contains("is not of type") => "type".to_owned(),
        (None, Some(message)) if message.contains("Additional properties") => {
            "additionalProperties".to_owned()
        }
        (None, Some(message)) if message.contains("is not one of") => "enum".to_owned(),
        (None, Some(message)) if message.contains("required property") => "required".to_owned(),
        (_, _) => panic!("no reason: {error}"),
    };
    let found: std::collections::BTreeSet<_> = errors.iter().map(reason).collect();
    let found: Vec<_> = found.into_iter().collect();
    *reasons.entry(found.join(" and ")).or_default() += 1;
}

/// Judges the calls of other corpora, which say themselves whether they fit.
fn judge_all<'a>(calls: impl Iterator<Item = (Arc<Registered>, &'a Value)>) -> (usize, Reasons) {
    let (mut fit, mut refused) = (0, Reasons::default());
    for (tool, call) in calls {
        let errors = call["schema_errors"].as_array().map(Vec::as_slice).unwrap_or_default();
        let conforms = errors.is_empty();
        // By the corpus's measure an unknown argument is an error.
        let tool = if conforms { tool } else { closed(&tool) };
        let admitted = admit(&tool, &call["arguments"]);
        assert_eq!(admitted.is_ok(), conforms, "{admitted:?} {call}");
        match conforms {
            true => fit += 1,
            false => note(&mut refused, errors),
        }
    }
    (fit, refused)
}

fn merge(all: &mut Reasons, more: Reasons) {
    for (reason, count) in more {
        *all.entry(reason).or_default() += count;
    }
}

#[test]
fn calls_of_multi_turn_bfcl_are_judged_as_the_corpus_says() {
    let corpus = Corpus::load("bfcl/multi_turn_tools.jsonl", "class");
    let trajectories = corpora::read("bfcl/multi_turn_trajectories.jsonl");
    let (mut fit, mut refused) = (0, Reasons::default());
    for line in lines(&trajectories) {
        let turns = line["turns"].as_array().unwrap().iter().flat_map(|t| t.as_array().unwrap());
        let known = turns.filter_map(|call| {
            Some((corpus.find(text(&call["class"]), text(&call["name"]))?, call))
        });
        let counts = judge_all(known);
        fit += counts.0;
        merge(&mut refused, counts.1);
    }
    println!("multi-turn bfcl: {} tools, {fit} calls fit, refused {refused:?}", corpus.count);
    assert!(fit > if corpora::is_whole() { 1000 } else { 40 });
}

#[test]
fn calls_of_agentdojo_are_judged_as_the_corpus_says() {
    let corpus = Corpus::load("agentdojo/tools.jsonl", "suite");
    let (mut fit, mut refused) = (0, Reasons::default());
    for file in ["user_tasks", "injection_tasks"] {
        for line in lines(&corpora::read(&format!("agentdojo/{file}.jsonl"))) {
            let calls = line["calls"].as_array().unwrap().iter();
            let find = |call: &Value| corpus.find(text(&line["suite"]), text(&call["name"]));
            let counts = judge_all(calls.filter_map(|call| Some((find(call)?, call))));
            fit += counts.0;
            merge(&mut refused, counts.1);
        }
    }
    println!("agentdojo: {} tools, {fit} calls fit, refused {refused:?}", corpus.count);
    assert!(fit > if corpora::is_whole() { 100 } else { 50 });
}

#[test]
fn calls_of_apibank_are_judged_as_the_corpus_says() {
    let corpus = Corpus::load("apibank/tools.jsonl", "level");
    let levels: HashMap<String, String> = lines(&corpora::read("apibank/tools.jsonl"))
        .map(|line| (text(&line["name"]).to_owned(), text(&line["level"]).to_owned()))
        .collect();
    let (mut fit, mut refused) = (0, Reasons::default());
    for line in lines(&corpora::read("apibank/dialogues.jsonl")) {
        let find = |call: &Value| {
            let name = text(&call["name"]);
            corpus.find(levels.get(name)?, name)
        };
        let calls = line["calls"].as_array().unwrap().iter();
        let counts = judge_all(calls.filter_map(|call| Some((find(call)?, call))));
        fit += counts.0;
        merge(&mut refused, counts.1);
    }
    println!("apibank: {} tools, {fit} calls fit, refused {refused:?}", corpus.count);
    assert!(fit > if corpora::is_whole() { 100 } else { 50 });
}
