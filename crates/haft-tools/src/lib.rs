//! The managed tools of Haft: files, commands and shells, inside a sandbox.
//!
//! [`install`] gives a node the tools and the [`Hands`] they work with. What the tools are, for
//! listings and documents, is [`catalogue`].

mod catalogue;
mod hands;
mod preflight;
mod tools;
mod toolset;

pub use catalogue::catalogue;
pub use hands::{Classifier, Hands, HandsSettings, Workspace};
pub use preflight::{Alternative, read_only_alternative};

pub use toolset::{AgentTool, install_agent_toolset};

use haft_runtime::HaftBuilder;

/// Gives a node the managed tools, and the hands they work with.
pub fn install(builder: HaftBuilder, hands: Hands) -> HaftBuilder {
    tools::all().into_iter().fold(builder.service(hands), HaftBuilder::tool)
}
