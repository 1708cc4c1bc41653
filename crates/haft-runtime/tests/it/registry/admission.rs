//! What a call must be to be admitted.

use haft_core::session::Check;
use haft_core::tool::{Injected, InjectedKind, Redaction, Status};
use haft_runtime::registry::{Refusal, Registry};
use serde_json::json;

use super::{definition, object, tool};

fn charge() -> haft_core::tool::Definition {
    definition(
        "charge",
        &json!({
            "type": "object",
            "properties": {"amount": {"type": "integer", "minimum": 1}, "token": {"type": "string"}},
            "required": ["amount"],
            "additionalProperties": false,
        }),
    )
}

const KINDS: [InjectedKind; 9] = [
    InjectedKind::RunContext,
    InjectedKind::ThreadId,
    InjectedKind::RunId,
    InjectedKind::State,
    InjectedKind::Store,
    InjectedKind::Events,
    InjectedKind::Stream,
    InjectedKind::Cancellation,
    InjectedKind::Secret,
];

// S3-5, S3-6, S3-7, D19: what the runtime supplies is neither shown nor taken from the model.
#[test]
fn s3_7_a_forged_injected_argument_never_reaches_the_tool() {
    for kind in KINDS {
        let registry = Registry::new();
        let mut definition = charge();
        definition.injected = vec![Injected { name: "hidden".into(), kind }];
        let charge = registry.register(tool(definition)).unwrap();
        let visible = charge.spec().input_schema.text();
        assert!(!visible.contains("hidden"), "{visible}");
        let forged = charge.admit_text(br#"{"hidden": "mine", "amount": 5}"#).unwrap();
        assert_eq!(forged.arguments, object(json!({"amount": 5})));
        assert_eq!(forged.forged, ["hidden"]);
        let error = charge.admit_text(br#"{"hidden": "mine"}"#).unwrap_err().to_string();
        assert!(error.contains("`/amount`") && !error.contains("hidden"), "{error}");
        let honest = charge.admit_text(br#"{"amount": 5}"#).unwrap();
        assert!(honest.forged.is_empty());
    }
}

// S3-17, D19: what cannot be read is an error with the raw text, never `{}`.
#[test]
fn s3_17_malformed_arguments_are_refused_and_kept() {
    let registry = Registry::new();
    let open = registry.register(tool(definition("do_it", &json!({"type": "object"})))).unwrap();
    for bad in ["", "null", "{", "[]", "{'a':1}", "{\"a\":1,\"a\":2}", "{\"a\":NaN}"] {
        let refusal = open.admit_text(bad.as_bytes()).unwrap_err();
        let Check::Malformed { raw, message } = refusal.into() else { panic!("{bad}") };
        assert_eq!(raw, bad);
        assert!(message.contains("`do_it`"), "{message}");
    }
    assert!(open.admit_text(b"{}").is_ok());
}

#[test]
fn a_refusal_does_not_repeat_secrets() {
    let registry = Registry::new();
    let mut definition = charge();
    definition.redaction = Redaction { secret: vec!["/token".parse().unwrap()] };
    let charge = registry.register(tool(definition)).unwrap();
    let refusal = charge.admit(object(json!({"amount": 0, "token": 12345678}))).unwrap_err();
    let text = refusal.to_string();
    assert!(text.contains("`/token`") && !text.contains("12345678"), "{text}");
    assert!(text.contains("found 0"), "{text}");
    let Refusal::Malformed { raw, message } =
        charge.admit_text(b"{\"token\":\"s3cret").unwrap_err()
    else {
        panic!()
    };
    assert!(!raw.contains("s3cret") && !message.contains("s3cret"), "{raw} {message}");
}

// S1-27: deprecated tools run with a warning, removed ones do not.
#[test]
fn s1_27_a_removed_tool_is_refused_and_a_deprecated_one_warns() {
    let registry = Registry::new();
    let with = |name: &str, status| {
        let mut definition = definition(name, &json!({"type": "object"}));
        definition.status = status;
        registry.register(tool(definition)).unwrap()
    };
    let active = with("new_tool", Status::Active);
    let deprecated = with("old_tool", Status::Deprecated);
    let removed = with("gone_tool", Status::Removed);
    assert_eq!(active.warning(), None);
    assert!(active.admit_text(b"{}").is_ok());
    assert!(deprecated.warning().unwrap().contains("`old_tool` is deprecated"));
    assert!(deprecated.admit_text(b"{}").is_ok());
    let refusal = removed.admit_text(b"{}").unwrap_err();
    assert!(matches!(refusal, Refusal::UnknownTool { .. }), "{refusal}");
    let offered = registry.advertise(&haft_core::permission::Exposure::default());
    assert_eq!(offered.tools().len(), 1);
}
