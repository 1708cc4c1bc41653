//! How calls ended, in MCP's words.

use haft_core::session::{RejectReason, Rejection};
use haft_core::{CallResult, ErrorClass, Outcome, ProviderCallId};
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
    let id = ProviderCallId::from(outcome.call);
    read(Dialect::Mcp.project_result(outcome, &id, Extension::Omit))
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

fn worked(outcome: &Outcome) -> Result<&haft_core::Output, ErrorData> {
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
