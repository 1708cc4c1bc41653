//! The vocabulary and the session machine of Haft.

mod arguments;
mod digest;
mod id;
pub mod json;
mod name;
mod outcome;
mod pointer;
mod time;
pub mod tool;

pub use arguments::{Arguments, RequestedCall};
pub use digest::{Digest, DigestError, canonical};
pub use id::{
    ArtifactId, CallId, GrantId, IdError, MessageId, ProviderCallId, ProviderCallIdError,
    ResolutionId, SealId, SessionId,
};
pub use name::{NameError, ToolAlias, ToolName};
pub use outcome::{
    ArtifactRef, CallResult, ContentBlock, Directives, Disposition, ErrorClass, Failure,
    LoopEffect, Outcome, Output, Provenance, Trust,
};
pub use pointer::{JsonPointer, PointerError};
pub use time::{Millis, Timestamp, TimestampError};
