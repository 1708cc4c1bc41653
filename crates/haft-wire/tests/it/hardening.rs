//! What a hostile reader found: the boundary to bodies that others write.

use haft_core::tool::{Executor, Recovery, ToolSpec};
use haft_core::{
    CallId, CallResult, Directives, ErrorClass, Failure, Outcome, Output, Provenance,
    ProviderCallId, Timestamp, Trust,
};
use haft_wire::{Dialect, Extension, Kind, Reading, ResultContext};
use serde_json::{Map, Value, json};

fn outcome(result: CallResult) -> Outcome {
    Outcome {
        call: CallId::from_bits(1),
        tool: "x".parse().unwrap(),
        attempt: 1,
        started_at: Timestamp::from_ms(1),
        finished_at: Timestamp::from_ms(2),
        result,
        directives: Directives::default(),
        provenance: Provenance { executor: Executor::Client, trust: Trust::Untrusted },
        provider_meta: None,
        extra: Map::new(),
    }
}

fn provider_id() -> ProviderCallId {
    ProviderCallId::new("p").unwrap()
}

fn lift_mcp(body: Value) -> ToolSpec {
    ToolSpec::new(Dialect::Mcp.lift_definition(body, Reading::Foreign).unwrap()).unwrap()
}

#[test]
fn what_only_the_log_is_told_is_not_in_a_bare_projection() {
    let mut failure = Failure::new(ErrorClass::ToolError, "failed");
    failure.debug = Some("SECRET-DEBUG".into());
    let outcome = outcome(CallResult::Err(failure));
    for dialect in Dialect::ALL {
        let body = dialect.project_result(&outcome, &provider_id(), Extension::Omit);
        assert!(!body.to_string().contains("SECRET-DEBUG"), "{dialect}: {body}");
    }
}

#[test]
fn another_servers_hint_never_lets_a_call_run_twice() {
    for hints in [
        json!({"readOnlyHint": false}),
        json!({"readOnlyHint": true, "destructiveHint": true}),
        json!({"readOnlyHint": true, "idempotentHint": true}),
        json!({}),
    ] {
        let spec = lift_mcp(json!({
            "name": "get_next_job",
            "description": "Pops.",
            "inputSchema": {"type": "object"},
            "annotations": hints,
        }));
        assert_eq!(spec.contract().recovery, Recovery::Ask, "{hints}");
    }
}

#[test]
fn hints_that_contradict_each_other_are_read_as_the_graver_one() {
    let spec = lift_mcp(json!({
        "name": "charge",
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": true, "destructiveHint": true},
    }));
    assert!(spec.facets().is_destructive());
    assert_eq!(spec.description, "charge", "a server need not describe its tools");
}

#[test]
fn a_schema_with_a_64_bit_bound_can_be_mounted() {
    let text = br#"{"name":"count","inputSchema":{"type":"object","properties":{"n":{"type":"integer","maximum":9223372036854775807}}}}"#;
    let body = Dialect::Mcp.read(Kind::Definition, text).unwrap();
    assert!(lift_mcp(body).input_schema.text().contains("9223372036854775807"));
}

#[test]
fn results_with_ordinary_values_survive_their_text() {
    let values = [
        json!(u64::MAX),
        json!(0.1 + 0.2),
        json!(1e-7),
        json!("a\u{0}b"),
        json!(0.985_690_694_632_869_5),
    ];
    for value in values {
        let x = outcome(CallResult::Ok(Output::of_value(value)));
        for dialect in [
            Dialect::Agentix,
            Dialect::Mcp,
            Dialect::Steerable,
            Dialect::ToolForge,
            Dialect::TinyAgents,
            Dialect::OpenboaSandbox,
        ] {
            let text = dialect.project_result(&x, &provider_id(), Extension::Include).to_string();
            let body = dialect.read(Kind::Result, text.as_bytes()).unwrap();
            let context = ResultContext::of(&x, provider_id());
            assert_eq!(dialect.lift_result(body, &context, Reading::Own).unwrap(), x, "{dialect}");
        }
    }
}

#[test]
fn a_call_is_read_more_strictly_than_what_has_happened() {
    let call = br#"{"id":"c","name":"x","arguments":{"n":9223372036854775807}}"#;
    assert!(Dialect::Steerable.read(Kind::Call, call).is_err());
}
