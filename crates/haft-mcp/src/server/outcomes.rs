//! How calls ended, in MCP's words.

use haft_core::session::{RejectReason, Rejection};
use haft_core::{CallResult, ErrorClass, Outcome, Output, ProviderCallId};
use haft_wire::{Dialect, Extension};
use rmcp::model::{
    CallToolResult, ClientCapabilities, ContentBlock, ErrorData, GetPromptResult, PromptMessage,
    ReadResourceResult, ResourceContents, Role,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::questions::Kind;

/// Returns the result of a call. What broke is an error of the protocol; what a tool refused or
/// failed to do is a result that the model reads.
pub(super) fn result(outcome: &Outcome) -> Result<CallToolResult, ErrorData> {
    if let CallResult::Err(failure) = &outcome.result
        && failure.class == ErrorClass::Internal
    {
        return Err(ErrorData::internal_error(failure.message.clone(), None));
    }
    if let Some(texts) = plain_texts(outcome) {
        return Ok(CallToolResult::success(texts));
    }
    let id = ProviderCallId::from(outcome.call);
    read(Dialect::Mcp.project_result(outcome, &id, Extension::Omit))
}

/// Returns the content of a result that is nothing but texts, which needs no projecting.
fn plain_texts(outcome: &Outcome) -> Option<Vec<ContentBlock>> {
    let CallResult::Ok(Output { content, value: None, artifacts }) = &outcome.result else {
        return None;
    };
    if !artifacts.is_empty() || !outcome.extra.is_empty() || content.is_empty() {
        return None;
    }
    content.iter().map(|block| Some(ContentBlock::text(block.as_text()?))).collect()
}

/// Returns what a call that was not taken is answered with.
pub(super) fn rejection(rejection: &Rejection) -> Result<CallToolResult, ErrorData> {
    match rejection.reason {
        RejectReason::UnknownTool | RejectReason::NotAdvertised => {
            Err(ErrorData::invalid_params(rejection.message.clone(), None))
        }
        _ => Ok(CallToolResult::error(vec![ContentBlock::text(rejection.message.clone())])),
    }
}

/// Says that there is no tool of a name.
pub(super) fn no_tool(name: &str) -> ErrorData {
    let name: String = name.chars().take(64).collect();
    ErrorData::invalid_params(format!("there is no tool {name:?}"), None)
}

/// Says that a tool cannot do without something that its client did not declare.
pub(super) fn missing(kind: Kind) -> ErrorData {
    let declared = match kind {
        Kind::Elicitation => ClientCapabilities::builder().enable_elicitation().build(),
        Kind::Sampling => ClientCapabilities::builder().enable_sampling().build(),
        Kind::Roots => ClientCapabilities::builder().enable_roots().build(),
    };
    ErrorData::missing_required_client_capability(declared)
}

/// Says that a tool answers only with tasks.
pub(super) fn tasks_missing() -> ErrorData {
    let declared = ClientCapabilities::builder().enable_tasks().build();
    ErrorData::missing_required_client_capability(declared)
}

/// Reads a tool's result as a prompt: messages as MCP writes them, or a text.
pub(super) fn prompt(outcome: &Outcome) -> Result<GetPromptResult, ErrorData> {
    let output = worked(outcome)?;
    if let Some(value) = &output.value {
        return read(value.clone());
    }
    let text = output.first_text().unwrap_or_default();
    Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]))
}

/// Reads a tool's result as the content of a resource: contents as MCP writes them, or a text.
pub(super) fn resource(
    outcome: &Outcome,
    uri: &str,
    mime_type: Option<&str>,
) -> Result<ReadResourceResult, ErrorData> {
    let output = worked(outcome)?;
    if let Some(value) = &output.value {
        return read(value.clone());
    }
    let text = output.first_text().unwrap_or_default();
    let mut contents = ResourceContents::text(text, uri);
    if let Some(mime_type) = mime_type {
        contents = contents.with_mime_type(mime_type);
    }
    Ok(ReadResourceResult::new(vec![contents]))
}

fn worked(outcome: &Outcome) -> Result<&Output, ErrorData> {
    match &outcome.result {
        CallResult::Ok(output) => Ok(output),
        CallResult::Err(failure) => Err(match failure.class {
            ErrorClass::InvalidArgs => ErrorData::invalid_params(failure.message.clone(), None),
            _ => ErrorData::internal_error(failure.message.clone(), None),
        }),
    }
}

fn read<T: DeserializeOwned>(mut body: Value) -> Result<T, ErrorData> {
    if let Some(body) = body.as_object_mut() {
        body.insert("resultType".to_owned(), "complete".into());
    }
    serde_json::from_value(body).map_err(|error| {
        ErrorData::internal_error(format!("the tool's result is not what MCP has: {error}"), None)
    })
}

#[cfg(test)]
mod tests {
    use haft_core::tool::Executor;
    use haft_core::{CallId, Directives, Provenance, Timestamp, ToolName, Trust};
    use serde_json::{Map, json};

    use super::*;

    fn outcome(output: Output) -> Outcome {
        let at = Timestamp::from_ms(0);
        Outcome {
            call: CallId::from_bits(1),
            tool: ToolName::new("look").unwrap(),
            attempt: 1,
            started_at: at,
            finished_at: at,
            result: CallResult::Ok(output),
            directives: Directives::default(),
            provenance: Provenance { executor: Executor::Server, trust: Trust::Untrusted },
            provider_meta: None,
            extra: Map::new(),
        }
    }

    #[test]
    fn texts_alone_are_what_the_projection_makes_of_them() {
        let of_texts = outcome(Output::of_text("five"));
        assert!(plain_texts(&of_texts).is_some());
        assert!(plain_texts(&outcome(Output::default())).is_none());
        assert!(plain_texts(&outcome(Output::of_value(json!(5)))).is_none());
        let id = ProviderCallId::from(of_texts.call);
        let projected: CallToolResult =
            read(Dialect::Mcp.project_result(&of_texts, &id, Extension::Omit)).unwrap();
        assert_eq!(result(&of_texts).unwrap(), projected);
    }
}
