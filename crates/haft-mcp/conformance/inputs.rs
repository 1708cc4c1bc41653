//! Tools that ask their caller: for what a person fills in, what a model says, which roots it has.

use std::sync::Arc;

use haft_mcp::{Kind, Question, Questions};
use haft_runtime::{Tool, ToolContext, ToolError};
use serde_json::{Map, Value, json};

use crate::kit::{ask, ask_all, filled_in, form, plain, text, tool};

pub(crate) fn tools() -> Vec<Arc<dyn Tool>> {
    let mut tools = legacy();
    tools.extend(forms());
    tools.extend(single());
    tools.extend(several());
    tools
}

fn sampling(prompt: &str) -> Question {
    let message = json!({"role": "user", "content": {"type": "text", "text": prompt}});
    let params = json!({"messages": [message], "maxTokens": 100});
    Question { kind: Kind::Sampling, params: params.as_object().cloned().unwrap_or_default() }
}

fn roots() -> Question {
    Question { kind: Kind::Roots, params: Map::new() }
}

fn name_form() -> Question {
    form("What is your name?", json!({"name": {"type": "string"}}))
}

/// The names are the suite's; the older scenarios expect the whole answer in the text.
fn legacy() -> Vec<Arc<dyn Tool>> {
    let one = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
    vec![
        tool(
            "test_sampling",
            "Asks the client's model",
            one("prompt"),
            |arguments, context| async move {
                let prompt = arguments["prompt"].as_str().unwrap_or_default();
                let answer = ask(&context, "sampling", sampling(prompt)).await?;
                let said = answer["content"]["text"].as_str().unwrap_or("(nothing)");
                Ok(text(format!("LLM response: {said}")))
            },
        ),
        tool(
            "test_elicitation",
            "Asks the person",
            one("message"),
            |arguments, context| async move {
                let message = arguments["message"].as_str().unwrap_or_default();
                let fields = json!({
                    "username": {"type": "string", "description": "User's response"},
                    "email": {"type": "string", "description": "User's email address"},
                });
                answered(&context, form(message, fields), "User response").await
            },
        ),
        plain("test_missing_capability", "Needs the client's model", |context| async move {
            ask(&context, "sampling", sampling("Say something")).await?;
            Ok(text("Required capability declared"))
        }),
    ]
}

async fn answered(
    context: &ToolContext,
    question: Question,
    what: &str,
) -> Result<haft_core::session::Returned, ToolError> {
    let answer = ask(context, "elicitation", question).await?;
    let action = answer["action"].as_str().unwrap_or_default();
    Ok(text(format!("{what}: action={action}, content={}", answer["content"])))
}

fn forms() -> Vec<Arc<dyn Tool>> {
    vec![
        plain("test_elicitation_sep1034_defaults", "Asks with defaults", |context| async move {
            let fields = json!({
                "name": {"type": "string", "description": "User's name", "default": "John Doe"},
                "age": {"type": "integer", "description": "User's age", "default": 30},
                "score": {"type": "number", "description": "User's score", "default": 95.5},
                "status": {"type": "string", "description": "User's status", "enum": ["active", "inactive", "pending"], "default": "active"},
                "verified": {"type": "boolean", "description": "Whether user is verified", "default": true},
            });
            let schema = json!({"type": "object", "properties": fields});
            let question = Question::form("Please provide values (all have defaults)", &schema);
            answered(&context, question, "Elicitation completed").await
        }),
        plain("test_elicitation_sep1330_enums", "Asks for choices", |context| async move {
            let titled = |name: &str| json!([{"const": "value1", "title": format!("First {name}")}, {"const": "value2", "title": format!("Second {name}")}, {"const": "value3", "title": format!("Third {name}")}]);
            let fields = json!({
                "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
                "titledSingle": {"type": "string", "oneOf": titled("Option")},
                "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]},
                "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
                "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
            });
            let schema = json!({"type": "object", "properties": fields});
            let question = Question::form("Test enum schema improvements", &schema);
            answered(&context, question, "Enum elicitation completed").await
        }),
    ]
}

fn single() -> Vec<Arc<dyn Tool>> {
    let confirm = || form("Please confirm", json!({"ok": {"type": "boolean"}}));
    let mut tools = vec![
        plain("test_input_required_result_elicitation", "Needs a name", |context| async move {
            let answer = ask(&context, "user_name", name_form()).await?;
            Ok(text(format!("Hello, {}!", filled_in(&answer, "name"))))
        }),
        plain(
            "test_input_required_result_sampling",
            "Needs a model's answer",
            |context| async move {
                let question = sampling("What is the capital of France?");
                let answer = ask(&context, "capital_question", question).await?;
                let said = answer["content"]["text"].as_str().unwrap_or("(nothing)");
                Ok(text(format!("Sampling response: {said}")))
            },
        ),
        plain("test_input_required_result_list_roots", "Needs the roots", |context| async move {
            let answer = ask(&context, "client_roots", roots()).await?;
            let roots = answer["roots"].as_array().cloned().unwrap_or_default();
            let roots: Vec<&str> = roots.iter().filter_map(|root| root["uri"].as_str()).collect();
            Ok(text(format!("Client roots: [{}]", roots.join(", "))))
        }),
        plain("test_streaming_elicitation", "Needs a value", |context| async move {
            let question = form("Provide a value", json!({"value": {"type": "string"}}));
            let answer = ask(&context, "streaming_elicitation", question).await?;
            Ok(text(filled_in(&answer, "value")))
        }),
    ];
    for name in ["request_state", "tampered_state"] {
        let name = format!("test_input_required_result_{name}");
        tools.push(plain(&name, "Needs a yes", move |context| async move {
            ask(&context, "confirm", confirm()).await?;
            Ok(text("Confirmed: state-ok"))
        }));
    }
    tools
}

fn several() -> Vec<Arc<dyn Tool>> {
    vec![
        plain(
            "test_input_required_result_multiple_inputs",
            "Needs three things",
            |context| async move {
                let greeting = ("greeting", sampling("Generate a greeting"));
                ask_all(
                    &context,
                    [("user_name", name_form()), greeting, ("client_roots", roots())],
                )
                .await?;
                Ok(text("All inputs received"))
            },
        ),
        plain(
            "test_input_required_result_multi_round",
            "Needs one thing after another",
            |context| async move {
                let question =
                    form("Step 1: What is your name?", json!({"name": {"type": "string"}}));
                ask(&context, "step1", question).await?;
                let question = form(
                    "Step 2: What is your favorite color?",
                    json!({"color": {"type": "string"}}),
                );
                ask(&context, "step2", question).await?;
                Ok(text("Multi-round flow complete"))
            },
        ),
        plain(
            "test_input_required_result_capabilities",
            "Asks for what it can",
            |context| async move {
                let questions = context.service::<Questions>()?;
                let can = |kind| questions.can_ask(context.call(), kind);
                if can(Kind::Sampling) {
                    ask(&context, "greeting", sampling("Generate a greeting")).await?;
                } else if can(Kind::Roots) {
                    ask(&context, "client_roots", roots()).await?;
                } else {
                    let answer: Value = ask(&context, "user_name", name_form()).await?;
                    return Ok(text(format!("Hello, {}!", filled_in(&answer, "name"))));
                }
                Ok(text("Capability-aware flow complete"))
            },
        ),
    ]
}
