//! The JSON that the outside sees.
//!
//! Haft knows one form of a tool, of a call and of a result: the types of `haft-core`. Every
//! other shape is a [`Dialect`]: a pair of `project` (canonical to theirs) and `lift` (theirs to
//! canonical). The log stores only the canonical form.
//!
//! What holds for every dialect with room for an extension member: lifting what was projected
//! gives back exactly what went in, and a body that was edited on the way is believed over the
//! extension. What comes from outside is read strictly: nothing is coerced, guessed or filled in.
//!
//! # Whom to believe
//!
//! A client that runs a tool writes the body that comes back. If the extension member could say
//! which call this is, when it ran, who ran it or whether it can be trusted, that client could
//! claim to be our own code, attach someone else's stored artifact, or answer another call. So
//! identity, times and provenance always come from the [`ResultContext`] that the runtime holds,
//! and the extension is read only with [`Reading::Own`], for bodies that Haft itself projected
//! and kept. With [`Reading::Foreign`] it is neither read nor kept.
//!
//! This crate does no I/O, never decides about permission and never validates a result against
//! a schema: that is the runtime's work.

mod agentix;
mod anthropic;
mod dialect;
mod error;
mod extension;
mod fields;
pub mod front;
pub mod managed;
mod mcp;
mod openai;
mod openboa;
mod patch;
pub mod provider_schema;
mod shape;
pub mod status;
mod steerable;
mod tiny_agents;
mod tool_forge;
pub mod trace;
mod views;

#[cfg(test)]
mod testing;

pub use dialect::{Dialect, Extension, Reading};
pub use error::{Kind, LiftError, ProjectError};
pub use mcp::lift_call_params as lift_mcp_call_params;
pub use shape::ResultContext;
pub use steerable::is_terminal;
