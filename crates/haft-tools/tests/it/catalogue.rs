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

// What asks is what runs a text of a shell.
#[test]
fn only_shell_texts_ask_by_themselves() {
    let all = catalogue();
    let asks = all.iter().filter(|definition| definition.gate.asks());
    let asks: Vec<&str> = asks.map(|definition| definition.name.as_str()).collect();
    assert_eq!(asks, ["shell_run", "shell_exec"]);
    assert!(all.iter().all(|definition| definition.gate != Gate::Unset));
}
