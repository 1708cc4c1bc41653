//! Tools that give content, log, report progress, fail, and change what is listed.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use haft_runtime::{Haft, Tool, ToolError};
use serde_json::json;

use crate::kit::{blocks, plain, text, tool};
use crate::prompts;

/// One red pixel.
pub(crate) const IMAGE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8/5+hHgAHggJ/PchI7wAAAABJRU5ErkJggg==";
/// Silence.
const AUDIO: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

static NODE: OnceLock<Haft> = OnceLock::new();

/// Lets the tools that change what is registered do so.
pub(crate) fn attach(haft: &Haft) {
    NODE.get_or_init(|| haft.clone());
}

pub(crate) fn tools() -> Vec<Arc<dyn Tool>> {
    let mut tools = kinds();
    tools.extend(reporting());
    tools.extend(changing());
    tools.extend(schemas());
    tools
}

fn kinds() -> Vec<Arc<dyn Tool>> {
    let image = || json!({"type": "image", "data": IMAGE, "mimeType": "image/png"});
    let resource = |uri: &str, kind: &str, text: &str| json!({"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": text}});
    vec![
        plain("test_simple_text", "Returns simple text content", |_| async {
            Ok(text("This is a simple text response for testing."))
        }),
        plain("test_image_content", "Returns image content", move |_| async move {
            Ok(blocks(None, json!([image()])))
        }),
        plain("test_audio_content", "Returns audio content", |_| async {
            Ok(blocks(None, json!([{"type": "audio", "data": AUDIO, "mimeType": "audio/wav"}])))
        }),
        plain("test_embedded_resource", "Returns embedded resource content", move |_| async move {
            let text = "This is an embedded resource content.";
            Ok(blocks(None, json!([resource("test://embedded-resource", "text/plain", text)])))
        }),
        plain(
            "test_multiple_content_types",
            "Returns several kinds of content",
            move |_| async move {
                let data = r#"{"test":"data","value":123}"#;
                let resource = resource("test://mixed-content-resource", "application/json", data);
                Ok(blocks(Some("Multiple content types test:"), json!([image(), resource])))
            },
        ),
        plain("test_error_handling", "Always returns an error", |_| async {
            Err(ToolError::new("This tool intentionally returns an error for testing"))
        }),
    ]
}

fn reporting() -> Vec<Arc<dyn Tool>> {
    vec![
        plain("test_tool_with_logging", "Logs while it runs", |context| async move {
            for step in
                ["Tool execution started", "Tool processing data", "Tool execution completed"]
            {
                context.progress(json!({"log": {"level": "info", "data": step}}));
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok(text("Logging test completed"))
        }),
        plain("test_logging_tool", "Logs one message", |context| async move {
            context.progress(json!({"log": {"level": "error", "data": "logLevel was requested"}}));
            Ok(text("Logging tool completed"))
        }),
        plain("test_tool_with_progress", "Reports progress", |context| async move {
            for (progress, message) in [(0, "Starting"), (50, "Halfway"), (100, "Complete")] {
                context.progress(json!({"progress": progress, "total": 100, "message": message}));
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok(text("Progress test completed"))
        }),
        plain("test_reconnection", "Takes a moment", |_| async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok(text("Reconnection test completed"))
        }),
    ]
}

/// A tool that is there or not: whoever calls the tools below changes that.
fn passing() -> Arc<dyn Tool> {
    plain("test_passing_tool", "Is there now and then", |_| async { Ok(text("here")) })
}

fn changing() -> Vec<Arc<dyn Tool>> {
    vec![
        plain("test_trigger_tool_change", "Changes the list of tools", |_| async {
            toggle(passing());
            Ok(text("Tool list change triggered"))
        }),
        plain("test_trigger_prompt_change", "Changes the list of prompts", |_| async {
            toggle(prompts::passing());
            Ok(text("Prompt list change triggered"))
        }),
    ]
}

fn toggle(tool: Arc<dyn Tool>) {
    let Some(haft) = NODE.get() else { return };
    if haft.registry().remove(tool.definition().name.as_str()).is_none() {
        haft.registry().register_arc(tool).unwrap_or_else(|error| panic!("{error}"));
    }
}

fn schemas() -> Vec<Arc<dyn Tool>> {
    let whole = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["name"]}, {"required": ["address"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["name"]},
        "additionalProperties": false,
    });
    let header = json!({
        "type": "object",
        "properties": {"value": {"type": "string", "x-mcp-header": "Value"}},
        "required": ["value"],
    });
    vec![
        tool(
            "json_schema_2020_12_tool",
            "Has a schema of 2020-12",
            whole,
            |arguments, _| async move {
                let name = arguments.get("name").and_then(|name| name.as_str()).unwrap_or("world");
                Ok(text(format!("Hello, {name}!")))
            },
        ),
        tool(
            "test_custom_header",
            "Has an argument in a header",
            header,
            |arguments, _| async move { Ok(text(format!("value: {}", arguments["value"]))) },
        ),
    ]
}
