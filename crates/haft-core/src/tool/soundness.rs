//! The rules that a definition must keep as a whole: one function per concern.

use serde_json::{Map, Value};

use super::behaviour::{Executor, Hook, Ownership, Undo, UndoSource};
use super::cost::Told;
use super::definition::{Definition, Problem};
use super::facets::{FsAccess, ResolvedFacets, Spend};
use crate::permission::Amount;
use crate::time::Millis;

const EXEC_TIMEOUT_MAX: Millis = Millis::from_secs(24 * 3600);
const SUSPEND_TTL_MAX: Millis = Millis::from_secs(366 * 24 * 3600);
const POOL_NAME_MAX: usize = 160;

pub(super) fn problems(definition: &Definition, facets: &ResolvedFacets) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut report = |field, found: String, fix| problems.push(Problem { field, found, fix });
    check_text(definition, &mut report);
    check_execution(definition, &mut report);
    check_clocks(definition, facets, &mut report);
    check_pools(definition, &mut report);
    check_schema(definition, &mut report);
    check_cost(definition, &mut report);
    check_relations(definition, facets, &mut report);
    problems
}

type Report<'a> = dyn FnMut(&'static str, String, &'static str) + 'a;

fn check_pools(definition: &Definition, report: &mut Report<'_>) {
    for pool in &definition.pools {
        if pool.limit == 0 {
            let found = format!("the pool `{}` lets no call run", pool.name);
            report("pools", found, "let at least one call run at once");
        }
        if !(1..=POOL_NAME_MAX).contains(&pool.name.len()) {
            let found = format!("a pool's name has {} bytes", pool.name.len());
            report("pools", found, "give it a name of 1 to 160 bytes");
        }
    }
    if !definition.pools.is_empty() && definition.executor != Executor::Server {
        let found = format!("its calls are not run here but by {:?}", definition.executor);
        let fix = "leave the pools out: they bound what this node runs";
        report("pools", found.to_lowercase(), fix);
    }
}

fn check_text(definition: &Definition, report: &mut Report<'_>) {
    if definition.description.trim().is_empty() {
        report(
            "description",
            "it is empty".into(),
            "say what the tool does and when to use it; the model routes by it",
        );
    }
    for (provider, alias) in &definition.aliases {
        if provider.is_empty() {
            let found = format!("alias `{}` belongs to no provider", alias.as_str());
            report("aliases", found, "name the provider it is for");
        }
    }
}

/// The legal combinations of ownership, executor and gate (the unified model, 2.1; document 004,
/// "Legal matrix").
fn check_execution(definition: &Definition, report: &mut Report<'_>) {
    let (ownership, executor) = (definition.ownership, definition.executor);
    let legal = match ownership {
        Ownership::Managed => true,
        Ownership::Mcp => executor == Executor::Server,
        Ownership::Custom => matches!(executor, Executor::Client | Executor::Human),
    };
    if !legal {
        let found = format!("{ownership:?} tools are not run by {executor:?}").to_lowercase();
        let fix = match ownership {
            Ownership::Mcp => "use executor `server`: Haft calls the MCP server",
            Ownership::Managed | Ownership::Custom => {
                "use executor `client` or `human`: a custom tool is fulfilled outside"
            }
        };
        report("executor", found, fix);
    }
    if definition.gate.asks() {
        match executor {
            Executor::Human => report(
                "gate",
                "a human tool is already a question".into(),
                "leave the gate unset: the person who answers can decline",
            ),
            Executor::Provider => report(
                "gate",
                "the provider runs the tool within its own response".into(),
                "leave the gate unset, or do not advertise the tool: there is no moment to ask",
            ),
            Executor::Server | Executor::Client => {}
        }
    }
    if executor == Executor::Provider && !definition.preconditions.is_empty() {
        report(
            "preconditions",
            "the provider runs the tool within its own response".into(),
            "remove them: there is no moment to check",
        );
    }
    if executor != Executor::Server && definition.hooks.contains(&Hook::Verify) {
        report(
            "hooks",
            "only a server tool can be verified after a crash".into(),
            "remove `verify`",
        );
    }
    if matches!(executor, Executor::Human | Executor::Provider)
        && definition.hooks.contains(&Hook::Preview)
    {
        report("hooks", "there is no approval to preview".into(), "remove `preview`");
    }
}

fn check_clocks(definition: &Definition, facets: &ResolvedFacets, report: &mut Report<'_>) {
    if !(Millis(1)..=EXEC_TIMEOUT_MAX).contains(&definition.exec_timeout) {
        let found = format!("{} ms", definition.exec_timeout.0);
        report("exec_timeout", found, "choose 1 ms to 24 hours");
    }
    if !(Millis(1)..=SUSPEND_TTL_MAX).contains(&definition.suspend_ttl) {
        let found = format!("{} ms", definition.suspend_ttl.0);
        report("suspend_ttl", found, "choose 1 ms to 366 days: nothing waits for ever");
    }
    if definition.max_result_bytes == 0 {
        report("max_result_bytes", "0 bytes".into(), "leave room for at least one byte");
    }
    if definition.retry.max_attempts == 0 {
        report("retry", "0 attempts".into(), "use 1 for a tool that is never tried again");
    }
    if definition.retry.max_attempts > 1 && !facets.is_safe_to_repeat() {
        report(
            "retry",
            "a second attempt would repeat the effect".into(),
            "declare facets.idempotency `idempotent` or `keyed`, or leave out retry",
        );
    }
}

fn check_schema(definition: &Definition, report: &mut Report<'_>) {
    if !definition.input_schema.describes_object() {
        report(
            "input_schema",
            "its `type` is not `object`".into(),
            "describe the arguments as an object with properties",
        );
    }
    let mut seen: Vec<&str> = Vec::new();
    for injected in &definition.injected {
        if injected.name.is_empty() || seen.contains(&injected.name.as_str()) {
            let found = format!("`{}` is empty or named twice", injected.name);
            report("injected", found, "name each injected argument once");
        }
        seen.push(&injected.name);
        if definition.input_schema.names_property(&injected.name) {
            let found = format!("the schema shows the injected argument `{}`", injected.name);
            report("input_schema", found, "take it out: the runtime supplies it, unseen");
        }
    }
}

fn check_cost(definition: &Definition, report: &mut Report<'_>) {
    let Some(cost) = &definition.cost else { return };
    if definition.facets.spend != Some(Spend::Possible) {
        let fix = "declare facets.spend `possible`, or leave out cost";
        report("cost", "the tool is not declared to spend".into(), fix);
    }
    if matches!(&cost.amount, Told::Always(amount) if *amount < Amount::ZERO) {
        report("cost", "an amount below 0".into(), "give what a call costs at most");
    }
}

/// A place that the call's arguments or result cannot have would be noticed only when someone
/// wants to take a call back.
fn check_undo_arguments(definition: &Definition, undo: &Undo, report: &mut Report<'_>) {
    for (name, source) in &undo.arguments {
        let (schema, place, what) = match source {
            UndoSource::Argument(place) => (Some(&definition.input_schema), place, "arguments"),
            UndoSource::Result(place) => (definition.output_schema.as_ref(), place, "result"),
            UndoSource::Literal(_) => continue,
        };
        if schema.is_some_and(|schema| !may_hold(schema.value(), place.as_str())) {
            let found = format!("`{name}` comes from `{place}`, which its {what} cannot have");
            report("undo", found, "point at a place that the schema describes");
        }
    }
}

/// Returns whether a value that fits a schema may have something at a place. Only plain objects,
/// lists and scalars are looked at; whatever else a schema says may allow it.
fn may_hold(schema: &Value, place: &str) -> bool {
    let mut schema = schema;
    for segment in place.split('/').skip(1) {
        let segment = segment.replace("~1", "/").replace("~0", "~");
        let Some(members) = schema.as_object() else { return schema != &Value::Bool(false) };
        let is_open = ["$ref", "$dynamicRef", "anyOf", "oneOf", "allOf", "if", "prefixItems"];
        if is_open.iter().any(|keyword| members.contains_key(*keyword)) {
            return true;
        }
        let is_number = !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_digit());
        let member = members.get("properties").and_then(|properties| properties.get(&segment));
        let other = ["additionalProperties", "patternProperties"]
            .into_iter()
            .filter_map(|keyword| members.get(keyword))
            .any(|others| others != &Value::Bool(false));
        let (has_properties, items) = (members.contains_key("properties"), members.get("items"));
        schema = match (member, items) {
            (Some(member), _) => member,
            (None, Some(items)) if is_number => items,
            (None, _) => return other || (!has_properties && !is_scalar(members)),
        };
    }
    true
}

/// Returns whether a schema describes neither an object nor a list.
fn is_scalar(members: &Map<String, Value>) -> bool {
    let is_nested = |name: &Value| name == "object" || name == "array";
    match members.get("type") {
        Some(Value::Array(names)) => !names.iter().any(is_nested),
        Some(name) => !is_nested(name),
        None => false,
    }
}

fn check_relations(definition: &Definition, facets: &ResolvedFacets, report: &mut Report<'_>) {
    if definition.depends_on.contains(&definition.name) {
        report("depends_on", "it names the tool itself".into(), "name only other tools");
    }
    if let Some(undo) = &definition.undo {
        if undo.tool == definition.name {
            report("undo", "it names the tool itself".into(), "name the compensating tool");
        }
        if facets.is_read_only() {
            report("undo", "the tool changes nothing".into(), "leave out undo");
        }
        if undo.window == Millis(0) {
            report("undo", "a window of 0 ms".into(), "give a person time to use it");
        }
        check_undo_arguments(definition, undo, report);
    }
    if let Some(found) = definition.mode.and_then(|mode| mode.contradiction(facets)) {
        report("mode", found.to_owned(), "declare a mode that is at least as strict, or none");
    }
    if let FsAccess::ReadOnly { roots } | FsAccess::ReadWrite { roots } = &facets.fs
        && let Some(root) = roots.iter().find(|root| !root.starts_with('/'))
    {
        report("facets", format!("root `{root}` is not absolute"), "give absolute directories");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pointer::JsonPointer;
    use crate::tool::{
        Facets, Gate, Injected, InjectedKind, Mode, Mutates, Precondition, Retry, Schema, ToolSpec,
    };
    use serde_json::json;
    use std::collections::BTreeMap;

    fn definition() -> Definition {
        let schema = Schema::new(r#"{"type":"object","properties":{"to":{"type":"string"}}}"#);
        Definition::new("send_email".parse().unwrap(), "Sends a mail.", schema.unwrap())
    }

    #[track_caller]
    fn refused(change: impl FnOnce(&mut Definition), field: &str, part: &str) {
        let mut definition = definition();
        change(&mut definition);
        let error = ToolSpec::new(definition).unwrap_err();
        assert!(error.problems().iter().any(|p| p.field == field), "{error}");
        let text = error.to_string();
        assert!(text.contains("`send_email`") && text.contains(part), "{text}");
    }

    // S4-3: the gate is legal for server and client only.
    #[test]
    fn s4_3_a_gate_on_a_human_or_provider_tool_cannot_be_built() {
        for gate in [Gate::Ask, Gate::AskAlways] {
            let human = |d: &mut Definition| (d.executor, d.gate) = (Executor::Human, gate);
            refused(human, "gate", "leave the gate unset");
            let provider = |d: &mut Definition| (d.executor, d.gate) = (Executor::Provider, gate);
            refused(provider, "gate", "no moment to ask");
            for executor in [Executor::Server, Executor::Client] {
                let sound = Definition { executor, gate, ..definition() };
                assert!(ToolSpec::new(sound).is_ok());
            }
        }
    }

    // S4-2, C9: approval is an axis of its own; the whole ownership and executor table.
    #[test]
    fn s4_2_the_legal_combinations_are_exactly_those_of_the_model() {
        use Executor::{Client, Human, Provider, Server};
        use Ownership::{Custom, Managed, Mcp};
        let legal = [
            (Managed, Server),
            (Managed, Human),
            (Managed, Client),
            (Managed, Provider),
            (Mcp, Server),
            (Custom, Client),
            (Custom, Human),
        ];
        for ownership in [Managed, Mcp, Custom] {
            for executor in [Server, Human, Client, Provider] {
                let built = ToolSpec::new(Definition { ownership, executor, ..definition() });
                let expected = legal.contains(&(ownership, executor));
                assert_eq!(built.is_ok(), expected, "{ownership:?} {executor:?}");
            }
        }
        refused(
            |d| (d.ownership, d.executor) = (Mcp, Client),
            "executor",
            "mcp tools are not run by client, so use executor `server`",
        );
    }

    // S3-5, S3-6: hidden values never stand in the schema, whatever their kind.
    #[test]
    fn s3_5_s3_6_an_injected_argument_in_the_schema_is_refused() {
        for kind in [
            InjectedKind::RunContext,
            InjectedKind::ThreadId,
            InjectedKind::RunId,
            InjectedKind::State,
            InjectedKind::Store,
            InjectedKind::Events,
            InjectedKind::Stream,
            InjectedKind::Cancellation,
            InjectedKind::Secret,
        ] {
            let shown = Injected { name: "to".into(), kind };
            refused(|d| d.injected.push(shown), "input_schema", "the runtime supplies it, unseen");
            let hidden = Injected { name: "hidden".into(), kind };
            let sound = Definition { injected: vec![hidden], ..definition() };
            assert!(!ToolSpec::new(sound).unwrap().input_schema.text().contains("hidden"));
        }
        let twice = Injected { name: "x".into(), kind: InjectedKind::State };
        refused(|d| d.injected = vec![twice.clone(), twice], "injected", "named twice");
    }

    #[test]
    fn every_problem_is_reported_at_once() {
        let mut broken = definition();
        broken.description.clear();
        broken.exec_timeout = Millis(0);
        broken.suspend_ttl = Millis(u64::MAX);
        broken.max_result_bytes = 0;
        broken.input_schema = Schema::new(r#"{"type":"string"}"#).unwrap();
        broken.depends_on = vec!["send_email".parse().unwrap()];
        let error = ToolSpec::new(broken).unwrap_err();
        let fields: Vec<_> = error.problems().iter().map(|p| p.field).collect();
        assert_eq!(
            fields,
            [
                "description",
                "exec_timeout",
                "suspend_ttl",
                "max_result_bytes",
                "input_schema",
                "depends_on"
            ]
        );
    }

    #[test]
    fn what_cannot_be_honoured_cannot_be_declared() {
        let twice = Retry { max_attempts: 2, ..Retry::default() };
        refused(|d| d.retry = twice, "retry", "would repeat the effect");
        refused(|d| d.retry.max_attempts = 0, "retry", "use 1");
        let human = |hook| {
            move |d: &mut Definition| {
                d.executor = Executor::Human;
                d.hooks.insert(hook);
            }
        };
        refused(human(Hook::Verify), "hooks", "remove `verify`");
        refused(human(Hook::Preview), "hooks", "remove `preview`");
        let gated = |d: &mut Definition| {
            d.executor = Executor::Provider;
            d.preconditions.insert(Precondition::OutcomePass);
        };
        refused(gated, "preconditions", "no moment to check");
        let roots = FsAccess::ReadWrite { roots: vec!["work".into()] };
        refused(|d| d.facets.fs = Some(roots), "facets", "`work` is not absolute");
    }

    #[test]
    fn a_mode_cannot_be_laxer_than_the_facets() {
        let with = |mode, mutates| {
            move |d: &mut Definition| (d.mode, d.facets.mutates) = (Some(mode), Some(mutates))
        };
        refused(with(Mode::Read, Mutates::Irreversible), "mode", "only looks");
        refused(with(Mode::External, Mutates::Bounded), "mode", "only looks");
        refused(with(Mode::SafeWrite, Mutates::Irreversible), "mode", "bounded");
        let strict = Definition { mode: Some(Mode::Local), ..definition() };
        assert!(ToolSpec::new(strict).is_ok());
    }

    // L5: a wrong pointer is found when the tool is registered, not when someone needs the undo.
    #[test]
    fn an_undo_points_at_what_a_call_can_have() {
        let input = json!({
            "type": "object", "additionalProperties": false,
            "properties": {
                "order": {"type": "string"},
                "to": {"type": "object", "properties": {"name": {"type": "string"}}},
                "lines": {"type": "array", "items": {"type": "object", "properties": {"n": {}}}},
                "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "any": {},
            },
        });
        let output = json!({"type": "object", "properties": {"id": {"type": "string"}}});
        let undo = |source| Undo {
            tool: "unsend".parse().unwrap(),
            arguments: [("id".to_owned(), source)].into(),
            window: Millis(9),
        };
        let with = |source: UndoSource| {
            let mut definition = definition();
            definition.input_schema = Schema::new(&input.to_string()).unwrap();
            definition.output_schema = Some(Schema::new(&output.to_string()).unwrap());
            definition.undo = Some(undo(source));
            ToolSpec::new(definition)
        };
        let place = |text: &str| JsonPointer::new(text).unwrap();
        for text in ["/order", "/to/name", "/lines/0/n", "/note/x", "/any/x/y"] {
            with(UndoSource::Argument(place(text))).unwrap();
        }
        for text in ["/oder", "/to/nane", "/order/x", "/lines/0/m"] {
            let error = with(UndoSource::Argument(place(text))).unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("undo"), "{error}");
        }
        with(UndoSource::Result(place("/id"))).unwrap();
        let error = with(UndoSource::Result(place("/ID"))).unwrap_err().to_string();
        assert!(error.contains("which its result cannot have"), "{error}");
    }

    #[test]
    fn an_undo_must_be_able_to_take_something_back() {
        let undo = |tool: &str, window| Undo {
            tool: tool.parse().unwrap(),
            arguments: BTreeMap::new(),
            window: Millis(window),
        };
        refused(|d| d.undo = Some(undo("send_email", 9)), "undo", "names the tool itself");
        refused(|d| d.undo = Some(undo("unsend", 0)), "undo", "0 ms");
        let read = Facets { mutates: Some(Mutates::None), ..Facets::default() };
        refused(
            |d| (d.undo, d.facets) = (Some(undo("unsend", 9)), read),
            "undo",
            "changes nothing",
        );
    }
}
