//! Tools that one session brings along: compiled once, found by what is declared about them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use haft_core::permission::{Report, Source, SourceReport};
use haft_core::session::{PolicyFacts, Toolset};
use haft_core::tool::Definition;
use haft_core::{Digest, ToolName};

use super::Toolbox;
use crate::registry::{Advertised, Registered};

/// How many compiled tools are kept. More cost the time to compile them again.
const KEPT_MAX: usize = 4096;

/// The compiled tools of sessions, by what is declared about them: sessions of the same agent
/// share them.
#[derive(Default)]
pub(super) struct OwnTools(Mutex<HashMap<Digest, Arc<Registered>>>);

impl OwnTools {
    fn compiled(&self, definition: &Definition) -> Option<Arc<Registered>> {
        let key = Digest::of_bytes(&serde_json::to_vec(definition).ok()?);
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = kept().get(&key) {
            return Some(Arc::clone(found));
        }
        // Whoever opens a session has checked its tools; one that is unsound all the same is none.
        let compiled = Arc::new(Registered::declared(definition.clone()).ok()?);
        let mut kept = kept();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(key, Arc::clone(&compiled));
        Some(compiled)
    }
}

impl Toolbox {
    /// Finds a tool as a session knows it: its own, else the node's.
    pub(crate) fn tool(&self, toolset: &Toolset, name: &str) -> Option<Arc<Registered>> {
        match toolset.own(name) {
            Some(definition) => self.own_tools.compiled(definition),
            None => self.registry.get(name),
        }
    }

    /// Returns every tool as a session knows it: its own, and the node's of other names.
    pub(crate) fn known_to(&self, toolset: &Toolset) -> Vec<Arc<Registered>> {
        let own = toolset.own.iter().filter_map(|tool| self.own_tools.compiled(tool));
        let others = self.registry.tools();
        let others = others.into_iter().filter(|tool| toolset.own(tool.name().as_str()).is_none());
        own.chain(others).collect()
    }

    /// Adds a session's own tools to what it is offered, in the place of the node's of that name.
    pub(super) fn with_own(&self, offered: Advertised, toolset: &Toolset) -> Advertised {
        if toolset.own.is_empty() {
            return offered;
        }
        let own: Vec<_> =
            toolset.own.iter().filter_map(|tool| self.own_tools.compiled(tool)).collect();
        offered.narrowed(|tool| toolset.own(tool.name().as_str()).is_none()).with(&own)
    }
}

/// Adds what the session's agent says about a call.
pub(crate) fn heard(toolset: &Toolset, tool: &ToolName, mut facts: PolicyFacts) -> PolicyFacts {
    if let Some(&verdict) = toolset.verdicts.get(tool) {
        let reason = "the agent's permission policy for this tool".to_owned();
        let report = Report::Says { verdict, reason };
        facts.reports.push(SourceReport { source: Source::Agent, report });
    }
    facts
}
