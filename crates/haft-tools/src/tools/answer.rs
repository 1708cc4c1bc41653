//! How the tools take their arguments and say what came of them.

use haft_core::session::Returned;
use haft_core::{ArtifactRef, CallResult, ErrorClass, Failure, Output};
use haft_runtime::{ToolArguments, ToolError};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Action;

/// Takes arguments that fit the tool's schema.
pub(super) fn taken<T: DeserializeOwned>(arguments: ToolArguments) -> Result<T, ToolError> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| ToolError::invalid(error.to_string()))
}

/// Does something that waits for the kernel, away from the tasks that must not wait.
pub(crate) async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| ToolError::internal(error.to_string()))?
}

/// Document 002's result of an action.
pub(super) fn done(action: Action, text: impl Into<String>, output: Value) -> Returned {
    done_with(action, text, output, Vec::new())
}

/// The same, with outputs that are kept elsewhere.
pub(super) fn done_with(
    action: Action,
    text: impl Into<String>,
    output: Value,
    artifacts: Vec<ArtifactRef>,
) -> Returned {
    let text: String = text.into();
    let mut value = json!({
        "ok": true,
        "name": action.name(),
        "text": text,
        "output": null,
        "artifacts": artifacts,
        "usage": {},
        "error": null,
    });
    value["output"] = output;
    Returned::from(CallResult::Ok(Output { value: Some(value), artifacts, ..Output::default() }))
}

/// An object that is not an action's result.
pub(super) fn plain(value: Value) -> Returned {
    Returned::from(CallResult::Ok(Output::of_value(value)))
}

/// The sandbox did not do it: the model reads why, and document 002's form of it is beside.
pub(super) fn refused<E: std::fmt::Display>(action: Action) -> impl Fn(E) -> ToolError {
    move |error| {
        let message = error.to_string();
        let partial = json!({
            "ok": false,
            "name": action.name(),
            "text": null,
            "output": null,
            "artifacts": [],
            "usage": {},
            "error": { "code": "sandbox_access_denied", "message": message, "retryable": false },
        });
        let failure = Failure::new(ErrorClass::ToolError, message);
        ToolError::from_failure(Failure { partial: Some(partial), ..failure })
    }
}

/// The beginning of a text, as many characters as wanted, and whether that is not all.
pub(super) fn beginning(text: &str, chars: usize) -> (&str, bool) {
    match text.char_indices().nth(chars) {
        Some((at, _)) => (text.get(..at).unwrap_or(text), true),
        None => (text, false),
    }
}
