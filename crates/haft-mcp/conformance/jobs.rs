//! Tools that are tasks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use haft_core::ToolName;
use haft_mcp::TaskUse;
use haft_runtime::{Tool, ToolError};
use serde_json::{Value, json};

use crate::kit::{ask, ask_all, filled_in, form, plain, text, tool};

/// Which tools are tasks, as the suite's scenarios describe them.
pub(crate) fn task_uses() -> BTreeMap<ToolName, TaskUse> {
    let uses = [
        ("slow_compute", TaskUse::Preferred),
        ("protocol_error_job", TaskUse::Preferred),
        ("failing_job", TaskUse::Required),
        ("confirm_delete", TaskUse::Required),
        ("multi_input", TaskUse::Required),
        ("test_tool_with_task", TaskUse::RequiredAfterInput),
    ];
    let named =
        uses.into_iter().map(|(name, task_use)| Some((ToolName::new(name).ok()?, task_use)));
    named.flatten().collect()
}

pub(crate) fn tools() -> Vec<Arc<dyn Tool>> {
    let mut tools = running();
    tools.extend(asking());
    tools
}

fn running() -> Vec<Arc<dyn Tool>> {
    let named =
        json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let timed = json!({"type": "object", "properties": {"seconds": {"type": "number"}, "label": {"type": "string"}}});
    vec![
        tool("greet", "Greets at once", named, |arguments, _| async move {
            Ok(text(format!("Hello, {}!", arguments["name"].as_str().unwrap_or("friend"))))
        }),
        tool("slow_compute", "Takes its time", timed, |arguments, context| async move {
            let seconds = arguments.get("seconds").and_then(Value::as_f64).unwrap_or(1.0);
            let label = arguments.get("label").and_then(Value::as_str).unwrap_or("compute");
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs_f64(seconds)) => {}
                () = context.stop().cancelled() => return Err(ToolError::cancelled()),
            }
            Ok(text(format!("slow_compute({label}) done after {seconds}s")))
        }),
        plain("failing_job", "Fails", |_| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Err(ToolError::new("failing_job: intentional tool execution error"))
        }),
        plain("protocol_error_job", "Breaks", |_| async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            Err(ToolError::internal("protocol_error_job: intentional protocol-level failure"))
        }),
    ]
}

fn asking() -> Vec<Arc<dyn Tool>> {
    let file = json!({"type": "object", "properties": {"filename": {"type": "string"}}});
    let value =
        |name: &str| form(&format!("Provide value {name}"), json!({"name": {"type": "string"}}));
    vec![
        tool("confirm_delete", "Needs a yes", file, |arguments, context| async move {
            let file = arguments.get("filename").and_then(Value::as_str).unwrap_or("file.txt");
            let question =
                form(&format!("Delete {file}?"), json!({"confirm": {"type": "boolean"}}));
            let answer = ask(&context, "confirm", question).await?;
            let confirmed = answer["content"]["confirm"].as_bool().unwrap_or(false);
            Ok(text(format!("confirm_delete({file}): confirmed = {confirmed}")))
        }),
        plain("multi_input", "Needs two things", move |context| async move {
            let questions = [("input-a", value("A")), ("input-b", value("B"))];
            let answers = ask_all(&context, questions).await?;
            let (a, b) =
                (filled_in(&answers["input-a"], "name"), filled_in(&answers["input-b"], "name"));
            Ok(text(format!("multi_input: a = {a}, b = {b}")))
        }),
        plain("test_tool_with_task", "Needs a name, then time", |context| async move {
            let question = form("What is your name?", json!({"name": {"type": "string"}}));
            let answer = ask(&context, "user_name", question).await?;
            tokio::time::sleep(Duration::from_millis(200)).await;
            Ok(text(format!("Hello, {}! (async)", filled_in(&answer, "name"))))
        }),
    ]
}
