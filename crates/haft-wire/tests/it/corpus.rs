//! Real tools, as three public benchmarks define them, through the formats of the providers.

use haft_core::json::{self, JsonLimits};
use haft_core::tool::{Definition, ToolSpec};
use haft_wire::provider_schema::{self, Target};
use haft_wire::{Dialect, Extension, Reading};
use serde_json::{Value, json};

use crate::corpora;

fn tools(corpus: &str) -> Vec<Value> {
    let text = corpora::read(&format!("{corpus}/tools.jsonl"));
    let limits = JsonLimits::default();
    text.lines().map(|line| json::parse(line.as_bytes(), limits).unwrap()).collect()
}

/// Writes a tool as each provider's users write it.
fn written(tool: &Value) -> [(Dialect, Value); 3] {
    let (name, description, schema) = (&tool["name"], &tool["description"], &tool["input_schema"]);
    let function = json!({"name": name, "description": description, "parameters": schema});
    let mut flat = function.clone();
    flat["type"] = json!("function");
    let anthropic = json!({"name": name, "description": description, "input_schema": schema});
    [
        (Dialect::OpenAiChat, json!({"type": "function", "function": function})),
        (Dialect::OpenAiResponses, flat),
        (Dialect::Anthropic, anthropic),
    ]
}

/// Lifts a tool that somebody wrote, and projects it as it would be sent.
fn check(tool: &Value, dialect: Dialect, body: Value) -> Definition {
    let name = tool["name"].as_str().unwrap();
    let lifted = dialect.lift_definition(body, Reading::Foreign);
    let lifted = lifted.unwrap_or_else(|error| panic!("{name}: {error}"));
    if lifted.name.as_str() != name {
        assert!(lifted.aliases.values().any(|alias| alias.as_str() == name), "{name}");
    }
    assert_eq!(*lifted.input_schema.value(), tool["input_schema"], "{name}");
    let sent = dialect.project_definition(&lifted, Extension::Omit);
    let sent = sent.unwrap_or_else(|error| panic!("{name}: {error}"));
    let again = dialect.lift_definition(sent.clone(), Reading::Foreign).unwrap();
    assert_eq!(dialect.project_definition(&again, Extension::Omit).unwrap(), sent, "{name}");
    lifted
}

// S3-4, S3-39: every tool of three corpora can be imported and advertised.
#[test]
fn s3_4_s3_39_real_tools_pass_through_the_providers_formats() {
    for corpus in ["bfcl", "apibank", "agentdojo"] {
        let tools = tools(corpus);
        let (mut aliased, mut sound) = (0, 0);
        for tool in &tools {
            let lifted = written(tool).map(|(dialect, body)| check(tool, dialect, body));
            let [definition, ..] = lifted;
            aliased += usize::from(!definition.aliases.is_empty());
            let strict = provider_schema::project(&definition.input_schema, Target::OpenAiStrict);
            assert!(strict.is_ok(), "{}: {strict:?}", definition.name);
            sound += usize::from(ToolSpec::new(definition).is_ok());
        }
        println!(
            "{corpus} ({}): {} tools, {aliased} under an alias, {sound} sound",
            corpora::scope(),
            tools.len()
        );
        assert!(tools.len() > 20);
    }
}
