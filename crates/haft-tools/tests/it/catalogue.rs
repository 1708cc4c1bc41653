//! What the catalogue promises about every tool at once.

use crate::place::Place;
use haft_core::tool::Gate;
use haft_runtime::registry::Severity;
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
