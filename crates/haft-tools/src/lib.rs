//! The managed tools of Haft: files, commands and shells, inside a sandbox.
//!
//! [`install`] gives a node the tools and the [`Hands`] they work with. What the tools are, for
//! listings and documents, is [`catalogue`]; the same hands are behind [`agent_toolset`], the tools
//! of the wire API.

mod advice;
mod catalogue;
mod chronicle;
mod context_pressure;
mod gate;
mod goal;
mod hands;
mod library;
mod memory;
mod notes;
mod posture;
mod preflight;
mod recall;
mod setup;
mod sight;
mod staged;
mod substrate;
mod tools;

pub use catalogue::{AGENT_TOOLSET, agent_tool_name, agent_toolset, agent_wire_name, catalogue};
pub use hands::{Classifier, Hands, HandsSettings, Vault, Workspace};
pub use library::{Libraries, Library, SkillHead};
pub use preflight::{Alternative, read_only_alternative};

use haft_runtime::HaftBuilder;

/// Gives a node the managed tools, and the hands they work with.
pub fn install(builder: HaftBuilder, hands: Hands) -> HaftBuilder {
    hands.show(builder.registry());
    let ended = hands.clone();
    let builder = builder.listener(move |live| ended.hear(live));
    let gated = builder.policy(gate::OutcomeGate::new(hands.clone())).adviser(advice::Advice);
    tools::all().into_iter().fold(gated.service(hands), HaftBuilder::tool)
}
