//! What the registry takes, and under which names.

use haft_core::tool::{Executor, Ownership, Schema, ToolSpec};
use haft_runtime::registry::{RegisterError, Registry};
use serde_json::json;

use super::{arc, definition, tool};

fn open() -> serde_json::Value {
    json!({"type": "object"})
}

// S3-1, S1-4: by name, with the schema that is sent and checked against.
#[test]
fn s3_1_a_registered_tool_is_found_by_its_name() {
    let registry = Registry::new();
    assert!(registry.is_empty() && registry.get("get_weather").is_none());
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let shared = registry.clone();
    registry.register(tool(definition("get_weather", &schema))).unwrap();
    let found = shared.get("get_weather").unwrap();
    assert_eq!(found.name().as_str(), "get_weather");
    assert_eq!(found.spec().input_schema.value(), &schema);
    assert!(found.input().check(&json!({"city": 7})).is_err());
    assert_eq!((shared.len(), shared.names()), (1, vec!["get_weather".parse().unwrap()]));
    assert!(found.code().is_some() && found.output().is_none());
}

// S3-2, D25: a name stands for one tool; replacing is a verb of its own.
#[test]
fn s3_2_a_second_tool_of_the_same_name_is_refused() {
    let registry = Registry::new();
    registry.register(tool(definition("charge", &open()))).unwrap();
    let before = registry.generation();
    let error = registry.register(tool(definition("charge", &open()))).unwrap_err();
    assert!(matches!(&error, RegisterError::Duplicate { tool } if tool.as_str() == "charge"));
    assert!(error.to_string().contains("call `replace`"), "{error}");
    assert_eq!((registry.len(), registry.generation()), (1, before));
}

#[test]
fn names_that_can_be_mistaken_for_each_other_are_refused() {
    let registry = Registry::new();
    for name in ["read_file", "list_all", "modern_art", "get_o"] {
        registry.register(tool(definition(name, &open()))).unwrap();
    }
    for (name, other) in [
        ("readfile", "read_file"),
        ("re_ad_file", "read_file"),
        ("list_al1", "list_all"),
        ("modem_art", "modern_art"),
        ("get_0", "get_o"),
    ] {
        let error = registry.register(tool(definition(name, &open()))).unwrap_err();
        assert!(
            matches!(&error, RegisterError::Confusable { other: found, .. } if found.as_str() == other),
            "{name}: {error}"
        );
    }
    registry.register(tool(definition("read_files", &open()))).unwrap();
    registry.remove("read_file").unwrap();
    registry.register(tool(definition("readfile", &open()))).unwrap();
}

// S3-4: a provider's name leads to the tool; events know the canonical one.
#[test]
fn s3_4_an_alias_leads_to_the_tool_for_its_provider_only() {
    let registry = Registry::new();
    let aliased = |name: &str, provider: &str, alias: &str| {
        let mut definition = definition(name, &open());
        definition.aliases.insert(provider.into(), haft_core::ToolAlias::new(alias).unwrap());
        definition
    };
    registry.register(tool(aliased("math_factorial", "bfcl", "math.factorial"))).unwrap();
    let found = registry.by_alias("bfcl", "math.factorial").unwrap();
    assert_eq!(found.name().as_str(), "math_factorial");
    assert!(registry.by_alias("other", "math.factorial").is_none());
    assert!(registry.by_alias("other", "math_factorial").is_some());
    registry.register(tool(aliased("math_power", "other", "math.factorial"))).unwrap();
    for taken in [
        aliased("math_root", "bfcl", "math.factorial"),
        aliased("math_root", "any", "math_factorial"),
    ] {
        let error = registry.register(tool(taken)).unwrap_err();
        assert!(matches!(error, RegisterError::AliasTaken { .. }), "{error}");
    }
    registry.register(tool(aliased("math_root", "bfcl", "sqrt"))).unwrap();
    let error = registry.register(tool(definition("sqrt", &open()))).unwrap_err();
    assert!(error.to_string().contains("`math_root`"), "{error}");
    registry.remove("math_root").unwrap();
    registry.register(tool(definition("sqrt", &open()))).unwrap();
}

// S4-4: a server tool needs code; the others need none.
#[test]
fn s4_4_a_server_tool_without_code_is_refused() {
    let registry = Registry::new();
    let error = registry.declare(definition("charge", &open())).unwrap_err();
    assert!(matches!(&error, RegisterError::CodeMissing { tool } if tool.as_str() == "charge"));
    for (name, executor) in [
        ("ask_user", Executor::Human),
        ("open_tab", Executor::Client),
        ("search_web", Executor::Provider),
    ] {
        let mut definition = definition(name, &open());
        definition.executor = executor;
        assert!(registry.declare(definition).unwrap().code().is_none());
    }
}

#[test]
fn what_is_not_sound_is_refused_with_the_field() {
    let registry = Registry::new();
    let mut unsound = definition("charge", &open());
    unsound.ownership = Ownership::Custom;
    let error = registry.register(tool(unsound)).unwrap_err();
    assert!(
        matches!(error, RegisterError::Definition(_)) && error.to_string().contains("executor")
    );
    let mut output = definition("charge", &open());
    output.output_schema = Some(Schema::from_value(&json!({"$ref": "file:///x"})).unwrap());
    let error = registry.register(tool(output)).unwrap_err().to_string();
    assert!(error.contains("`charge`, `output_schema`") && error.contains("file:///x"), "{error}");
    assert!(registry.is_empty());
}

// S1-28: replacing says what the version number hides, and keeps the tool's place.
#[test]
fn s1_28_a_replacement_reports_a_version_that_hides_a_change() {
    let registry = Registry::new();
    for name in ["first_tool", "second_tool"] {
        registry.register(tool(definition(name, &open()))).unwrap();
    }
    let changed = definition("first_tool", &json!({"type": "object", "title": "other"}));
    let problems = registry.replace(tool(changed)).unwrap();
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].fix, "raise the major number");
    let mut raised = definition("first_tool", &open());
    raised.version = "2.0.0".parse().unwrap();
    assert_eq!(registry.replace_arc(arc(raised)).unwrap(), []);
    assert_eq!(registry.names(), ["first_tool", "second_tool"].map(|n| n.parse().unwrap()));
    let error = registry.replace(tool(definition("third_tool", &open()))).unwrap_err();
    assert!(matches!(error, RegisterError::NotRegistered { .. }));
    let broken = definition("second_tool", &json!({"type": "object", "$ref": "x.json"}));
    registry.replace(tool(broken)).unwrap_err();
    let kept = registry.get("second_tool").unwrap();
    assert_eq!(kept.spec(), &ToolSpec::new(definition("second_tool", &open())).unwrap());
}

#[test]
fn tools_can_be_registered_while_others_look_them_up() {
    let registry = Registry::new();
    std::thread::scope(|scope| {
        for half in ["a", "b"] {
            let registry = &registry;
            scope.spawn(move || {
                for n in 0..100 {
                    let name = format!("{half}x{n}_tool");
                    registry.register(tool(definition(&name, &open()))).unwrap();
                    assert!(registry.get(&name).is_some());
                    registry.advertise(&haft_core::permission::Exposure::default());
                }
            });
        }
    });
    assert_eq!((registry.len(), registry.generation()), (200, 200));
}
