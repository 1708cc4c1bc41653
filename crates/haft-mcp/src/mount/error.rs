//! Why a server is not mounted.

use std::error::Error;

use haft_core::{Digest, ToolName};
use rmcp::service::ClientInitializeError;

use super::declared::DeclaredError;

/// Why a server is not mounted, or its tools are not as asked.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// It could not be reached.
    #[error("`{name}` cannot be reached: {message}")]
    Unreachable {
        /// The mount.
        name: ToolName,
        /// Why.
        message: String,
    },
    /// Another one has the name.
    #[error("`{name}` is mounted already")]
    Taken {
        /// The mount.
        name: ToolName,
    },
    /// There is no such mount.
    #[error("`{name}` is not mounted")]
    Unknown {
        /// The mount.
        name: ToolName,
    },
    /// It is described elsewhere.
    #[error("`{name}` is in the configuration of this node: take it out there")]
    Configured {
        /// The mount.
        name: ToolName,
    },
    /// What was to be accepted is not what the server offers.
    #[error("`{tool}` of `{name}` does not wait to be accepted as {digest}: look at it again")]
    OtherOffer {
        /// The mount.
        name: ToolName,
        /// The tool, as the server calls it.
        tool: String,
        /// What was to be accepted.
        digest: Digest,
    },
    /// It cannot be authorized.
    #[error("`{name}` cannot be authorized: {message}")]
    Unauthorized {
        /// The mount.
        name: ToolName,
        /// Why.
        message: String,
    },
    /// Somebody came back from an authorization that nobody was sent away for.
    #[error(
        "no authorization waits for that answer: it was answered already, took longer than 10 \
         minutes, or was never begun; begin it again"
    )]
    NotBegun,
    /// What describes it makes no sense.
    #[error(transparent)]
    Declared(#[from] DeclaredError),
    /// The store has trouble.
    #[error(transparent)]
    Store(#[from] haft_store::Error),
}

/// Says why nobody could be connected to, without the names of the types that carried it.
pub(super) fn why_unconnected(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => with_causes(error.error.as_ref()),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => why_unconnected(fallback),
        other => other.to_string(),
    }
}

/// Says what went wrong, with what was behind it.
pub(super) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut said = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let more = cause.to_string();
        if !said.contains(&more) {
            said = format!("{said}: {more}");
        }
        next = cause.source();
    }
    said
}
