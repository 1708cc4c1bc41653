//! What the catalogue promises about every tool at once.

use crate::place::Place;
use haft_core::tool::Gate;
use haft_runtime::CallError;
use haft_runtime::registry::Severity;
use haft_runtime::testing::object;
use haft_tools::{Classifier, catalogue};
use serde_json::json;

#[tokio::test]
async fn every_definition_is_taken_and_routes_well() {
    let place = Place::new();
    let node = place.store().start(place.builder(Classifier::Known));
    let registry = node.haft().registry();
    for definition in catalogue() {
        let registered = registry.get(definition.name.as_str()).unwrap();
        assert!(registered.code().is_some(), "{}", definition.name);
        let closed = definition.input_schema.value().get("additionalProperties");
        assert_eq!(closed, Some(&json!(false)), "{}", definition.name);
    }
    let findings = registry.lint();
    let grave: Vec<_> = findings.iter().filter(|f| f.severity > Severity::Note).collect();
    assert!(grave.is_empty(), "{grave:#?}");
}

// C29, S2-84, S2-86, S2-55: what asks runs a text of a shell, or changes what others share.
#[test]
fn s2_84_s2_86_s2_55_shell_texts_and_shared_changes_ask_by_themselves() {
    let all = catalogue();
    let asks = all.iter().filter(|definition| definition.gate.asks());
    let asks: Vec<&str> = asks.map(|definition| definition.name.as_str()).collect();
    let shared =
        ["resources_promote_to_substrate", "resources_restore_version", "memory_promote_note"];
    assert_eq!(asks, [&["shell_run", "shell_exec"], &shared[..]].concat());
    assert!(all.iter().all(|definition| definition.gate != Gate::Unset));
    let gated = all.iter().filter(|definition| !definition.preconditions.is_empty());
    let gated: Vec<&str> = gated.map(|definition| definition.name.as_str()).collect();
    assert_eq!(gated, shared);
    let untold: Vec<&str> = all
        .iter()
        .filter(|definition| definition.output_schema.is_none())
        .map(|definition| definition.name.as_str())
        .collect();
    assert!(untold.iter().all(|name| name.starts_with("sandbox_")), "{untold:?}");
}

// S2-6, S2-7: going on by oneself, learning and scheduling are no tools.
#[test]
fn s2_6_s2_7_there_is_no_tool_for_what_the_loop_does() {
    let all = catalogue();
    let names: Vec<&str> = all.iter().map(|definition| definition.name.as_str()).collect();
    for part in ["proactive", "wake", "schedule", "publish", "learning_write", "environment_set"] {
        assert!(names.iter().all(|name| !name.contains(part)), "{part}");
    }
}

/// Document 002's table: name, inputs (`*` is required), whether it asks, whether it only reads,
/// effects.
const CONTRACT: &[(&str, &str, bool, bool, &str)] = &[
    ("session_delegate", "message* title detail successCriteria", false, false, "session_write"),
    (
        "session_run_child",
        "sessionId* maxCycles",
        false,
        false,
        "session_read session_write memory_read",
    ),
    ("shell_describe", "sessionId", false, true, "memory_read sandbox_execute"),
    ("shell_history", "sessionId limit", false, true, "memory_read sandbox_execute"),
    ("shell_read_last_output", "sessionId", false, true, "memory_read sandbox_execute"),
    ("shell_read_command", "sessionId commandId*", false, true, "memory_read sandbox_execute"),
    ("shell_wait", "timeoutMs", false, true, "memory_read sandbox_execute"),
    ("shell_set_cwd", "path*", false, false, "memory_write sandbox_execute"),
    ("shell_set_env", "key* value*", false, false, "memory_write"),
    ("shell_unset_env", "key*", false, false, "memory_write"),
    ("shell_open", "cwd restart", false, false, "memory_write sandbox_execute"),
    ("shell_restart", "cwd", false, false, "memory_write sandbox_execute"),
    (
        "shell_run",
        "command* cwd timeoutMs maxOutputChars",
        true,
        false,
        "memory_write sandbox_execute",
    ),
    (
        "shell_exec",
        "command* cwd timeoutMs maxOutputChars restart",
        true,
        false,
        "memory_write sandbox_execute",
    ),
    ("shell_close", "", false, false, "memory_write sandbox_execute"),
    (
        "read",
        "path* maxChars startLine lineCount tailLines",
        false,
        true,
        "resource_read sandbox_execute",
    ),
    ("write", "path* content*", false, false, "resource_write sandbox_execute"),
    ("edit", "path* oldText* newText* replaceAll", false, false, "resource_write sandbox_execute"),
    ("glob", "path* pattern* kind limit", false, true, "resource_read sandbox_execute"),
    (
        "grep",
        "path* query* limit regex caseSensitive",
        false,
        true,
        "resource_read sandbox_execute",
    ),
    ("bash", "command* args cwd timeoutMs maxOutputChars", false, true, "sandbox_execute"),
    ("sandbox_describe", "", false, true, "sandbox_execute"),
    ("sandbox_execute", "name* input", false, false, "sandbox_execute"),
];

// S2-T36, S2-T37, S2-T38, S2-T39, S2-T40, S2-T41, S2-T42, S2-T43, S2-T44, S2-T45, S2-T46, S2-T47,
// S2-T48, S2-T49, S2-T50, S2-T51, S2-T52, S2-T53, S2-T54, S2-T55, S2-T56: inputs, policy and
// effects are the document's; whatever does not fit is refused before anything is done.
#[tokio::test]
async fn every_tool_keeps_the_documents_contract() {
    let place = Place::new();
    let mut session = place.node();
    let all = catalogue();
    for (name, inputs, asks, read_only, effects) in CONTRACT {
        let tool = all.iter().find(|tool| tool.name.as_str() == *name).unwrap();
        let schema = tool.input_schema.value();
        let required: Vec<&str> = inputs.split(' ').filter_map(|i| i.strip_suffix('*')).collect();
        assert_eq!(schema["required"], json!(required), "{name}");
        for input in inputs.split_whitespace().map(|input| input.trim_end_matches('*')) {
            assert!(schema["properties"][input].is_object(), "{name}: {input}");
        }
        assert_eq!(tool.gate.asks(), *asks, "{name}");
        assert_eq!(tool.resolved_facets().is_read_only(), *read_only, "{name}");
        let declared = serde_json::to_value(&tool.facets.effects).unwrap();
        for effect in effects.split(' ') {
            assert!(declared.as_array().unwrap().contains(&json!(effect)), "{name}: {effect}");
        }
        let id = session.id().await;
        let mut bad = json!({ "noSuchInput": 1 });
        for input in &required {
            bad[input] = json!("a.txt");
        }
        let mut bads = vec![bad];
        bads.extend(required.iter().map(|input| json!({ *input: [7] })));
        for bad in bads {
            let refused = session.node.haft().call(id, name, object(bad.clone())).await;
            assert!(matches!(refused, Err(CallError::Rejected(_))), "{name} {bad}: {refused:?}");
        }
    }
    assert_eq!(CONTRACT.len(), 23);
}
