//! Sound calls, broken on purpose: each must be refused by the path of what was broken.

use std::collections::BTreeMap;

use haft_runtime::registry::{Refusal, Registered};
use serde_json::{Map, Value, json};

use super::lines;
use super::published::{Corpus, closed};
use crate::corpora;

/// A call with one thing wrong, and where.
struct Mutant {
    kind: &'static str,
    path: String,
    arguments: Map<String, Value>,
}

fn mutants(schema: &Value, arguments: &Map<String, Value>) -> Vec<Mutant> {
    let mut mutants = Vec::new();
    let mut add = |kind, path: &str, change: &dyn Fn(&mut Map<String, Value>)| {
        let mut arguments = arguments.clone();
        change(&mut arguments);
        mutants.push(Mutant { kind, path: path.to_owned(), arguments });
    };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let drop_it = |arguments: &mut Map<String, Value>| drop(arguments.remove(name));
        add("required field dropped", &below("", name), &drop_it);
    }
    for (name, value) in arguments {
        let property = &schema["properties"][name];
        for (kind, path, broken) in breakages(property, &below("", name), value) {
            add(kind, &path, &|arguments| drop(arguments.insert(name.clone(), broken.clone())));
        }
    }
    add("unknown argument", "/surplus~1name", &|arguments| {
        arguments.insert("surplus/name".into(), json!(1));
    });
    mutants
}

fn below(path: &str, name: &str) -> String {
    format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Every way to break one value, with the path of what is broken.
fn breakages(schema: &Value, path: &str, value: &Value) -> Vec<(&'static str, String, Value)> {
    let mut broken = Vec::new();
    let here = |kind, value: Value| (kind, path.to_owned(), value);
    if let Some(other) = of_another_type(schema) {
        broken.push(here("wrong type", other));
    }
    if schema["enum"].is_array() && schema["type"] == "string" {
        broken.push(here("unknown choice", json!("no such choice")));
    }
    if let Some(least) = schema["minimum"].as_f64() {
        broken.push(here("out of range", json!(least.floor() - 1.0)));
    }
    if let Some(most) = schema["maximum"].as_f64() {
        broken.push(here("out of range", json!(most.ceil() + 1.0)));
    }
    match value {
        Value::Array(items) if schema["items"].is_object() && !items.is_empty() => {
            let last = items.len() - 1;
            for (kind, path, item) in
                breakages(&schema["items"], &format!("{path}/{last}"), &items[last])
            {
                let mut items = items.clone();
                items[last] = item;
                broken.push((kind, path, Value::Array(items)));
            }
        }
        Value::Object(members) if schema["properties"].is_object() => {
            for (name, member) in members {
                let property = &schema["properties"][name];
                for (kind, path, member) in breakages(property, &below(path, name), member) {
                    let mut members = members.clone();
                    members.insert(name.clone(), member);
                    broken.push((kind, path, Value::Object(members)));
                }
            }
        }
        _ => {}
    }
    broken
}

/// Returns a value of a type that the schema does not name, if it names any.
fn of_another_type(schema: &Value) -> Option<Value> {
    let alternatives = schema["anyOf"].as_array().into_iter().flatten();
    let declared: Vec<&str> = std::iter::once(schema)
        .chain(alternatives)
        .flat_map(|schema| match &schema["type"] {
            Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
            one => one.as_str().into_iter().collect::<Vec<_>>(),
        })
        .collect();
    let untyped = schema["anyOf"].as_array().into_iter().flatten().any(|s| s["type"].is_null());
    if declared.is_empty() || untyped {
        return None;
    }
    let values = [("boolean", json!(true)), ("string", json!("text")), ("null", Value::Null)];
    values.into_iter().find(|(kind, _)| !declared.contains(kind)).map(|(_, value)| value)
}

fn judge(tool: &Registered, mutant: Mutant) -> &'static str {
    let Mutant { kind, path, arguments } = mutant;
    let shown = Value::Object(arguments.clone()).to_string();
    let Err(Refusal::Invalid(misfit)) = tool.admit(arguments) else {
        panic!("{kind} at {path} was admitted: {shown}")
    };
    let named = misfit.violations().iter().any(|violation| violation.path == path);
    assert!(named, "{kind} at {path}: {misfit}\n{shown}");
    assert!(misfit.to_string().contains(&path));
    kind
}

// D19: whatever is broken, the refusal names it.
#[test]
fn every_broken_call_is_refused_by_the_path_of_what_was_broken() {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut run = |tool: &Registered, call: &Value| {
        let tool = closed(tool);
        let arguments = call["arguments"].as_object().unwrap();
        if tool.admit(arguments.clone()).is_err() {
            return;
        }
        for mutant in mutants(tool.spec().input_schema.value(), arguments) {
            *counts.entry(judge(&tool, mutant)).or_default() += 1;
        }
    };
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let every = if corpora::is_whole() { 3 } else { 1 };
    let bfcl = Corpus::load("bfcl/tools.jsonl", "tool_id");
    for line in lines(&corpora::read("bfcl/calls.jsonl")).step_by(every) {
        run(&bfcl.find(&text(&line["tool_id"]), &text(&line["name"])).unwrap(), &line);
    }
    let dojo = Corpus::load("agentdojo/tools.jsonl", "suite");
    for line in lines(&corpora::read("agentdojo/user_tasks.jsonl")) {
        for call in line["calls"].as_array().unwrap() {
            if let Some(tool) = dojo.find(&text(&line["suite"]), &text(&call["name"])) {
                run(&tool, call);
            }
        }
    }
    let (n, scope) = (counts.values().sum::<usize>(), corpora::scope());
    println!("broken calls ({scope}) refused by their path: {n} {counts:?}");
    let least = if corpora::is_whole() { 5_000 } else { 400 };
    assert!(counts.len() >= 4 && n > least, "{counts:?}");
}
