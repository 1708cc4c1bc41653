//! The vocabulary and the session machine of Haft.

mod actor;
mod arguments;
mod digest;
mod id;
pub mod journal;
pub mod json;
mod legible;
mod name;
mod outcome;
pub mod permission;
mod pointer;
pub mod session;
pub mod text_diff;
mod time;
pub mod tool;

pub use actor::{Actor, ActorId, ActorIdError, ActorKind};
pub use arguments::{Arguments, RequestedCall, Seal};
pub use digest::{Digest, DigestError, canonical};
pub use id::{
    ArtifactId, CallId, GrantId, IdError, MessageId, ProviderCallId, ProviderCallIdError,
    ResolutionId, SealId, SessionId, WakeId,
};
pub use legible::legible;
pub use name::{NameError, ToolAlias, ToolName};
pub use outcome::{
    ArtifactRef, CallResult, ContentBlock, Directives, Disposition, ErrorClass, Failure,
    LoopEffect, Outcome, Output, Provenance, Trust,
};
pub use pointer::{JsonPointer, PointerError};
pub use time::{Millis, Timestamp, TimestampError};
