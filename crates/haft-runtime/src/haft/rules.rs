//! What is known about a tool's calls before any is made: which rules stand, what they say, and
//! what a call would do.

use std::sync::Arc;

use haft_core::permission::{Derivation, Question, Source};
#[cfg(feature = "policy-file")]
use haft_core::permission::{Report, SourceReport};
use haft_core::session::{Config, PolicyFacts, Preview};
use haft_core::{Actor, Arguments, CallId, SessionId};
use serde_json::{Map, Value};

use super::Haft;
use crate::fresh::fresh_bits;
use crate::registry::Registered;
use crate::tool::{Scope, ToolError};
use crate::toolbox::heard;
#[cfg(feature = "policy-file")]
use crate::toolbox::{Opinion, PolicyFile, Wish};

/// A tool, and what the rules of a session say about it whatever its arguments are.
#[derive(Debug, Clone)]
pub struct Ruled {
    /// The tool.
    pub tool: Arc<Registered>,
    /// What is decided unless a policy or a grant that looks at the arguments says otherwise.
    pub derivation: Derivation,
}

#[haft_macros::boxed]
impl Haft {
    /// Returns the tools that a session so configured may use, with what its rules say of each.
    pub fn rules(&self, config: &Config) -> Vec<Ruled> {
        let arguments = Arguments::plain(Map::new());
        self.toolbox
            .known_to(&config.toolset)
            .into_iter()
            .filter(|tool| config.exposure.permits(tool.name()))
            .map(|tool| {
                let mut facts = PolicyFacts::default();
                facts.reports.extend(self.toolbox.floor(tool.spec(), config));
                let facts = heard(&config.toolset, tool.name(), facts);
                let derivation = Question {
                    contract: tool.spec().contract(),
                    arguments: &arguments,
                    level: config.level,
                    profile: config.profile,
                    exposure: &config.exposure,
                    reports: &facts.reports,
                    grants: &[],
                    now: self.toolbox.now(),
                }
                .derive();
                Ruled { tool, derivation }
            })
            .collect()
    }

    /// Finds out what a call would do in a session, without asking anyone and without making it.
    ///
    /// # Errors
    ///
    /// When the tool is not there, takes other arguments or has no preview.
    pub async fn preview(
        &self,
        session: SessionId,
        actor: Actor,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<Preview, ToolError> {
        let registered = self.registry().get(tool);
        let registered =
            registered.ok_or_else(|| ToolError::invalid(format!("there is no tool `{tool}`")))?;
        let call = fresh_bits(self.toolbox.now());
        let call = call.map_err(|error| ToolError::internal(error.to_string()))?;
        let scope = Scope { session, turn: 0, call: CallId::from_bits(call), attempt: 0, actor };
        self.toolbox.foresee(scope, registered, arguments).await
    }

    /// Returns the names of the sources that are asked about each call beside the rules.
    pub fn policies(&self) -> Vec<Source> {
        self.toolbox.policy_sources()
    }
}

#[cfg(feature = "policy-file")]
#[haft_macros::boxed]
impl Haft {
    /// Finds out what would be decided about a call in a session so configured, if the rules of a
    /// file stood beside those that do. Nothing is run and nobody is asked; what a person granted,
    /// and what only a session's log can tell, is not weighed.
    ///
    /// # Errors
    ///
    /// When the session has no such tool.
    pub async fn weigh(
        &self,
        config: &Config,
        actor: &Actor,
        (tool, arguments): (&str, &Map<String, Value>),
        file: &PolicyFile,
    ) -> Result<Ruled, ToolError> {
        let known = self.toolbox.known_to(&config.toolset);
        let is_meant = |registered: &Arc<Registered>| {
            let name = registered.name().as_str();
            name == tool || config.toolset.called(name) == tool
        };
        let tool = known
            .into_iter()
            .find(is_meant)
            .ok_or_else(|| ToolError::invalid(format!("there is no tool `{tool}`")))?;
        let spec = tool.spec();
        let arguments = Arguments::plain(spec.redaction.record_view(arguments));
        let session = fresh_bits(self.toolbox.now()).map(SessionId::from_bits);
        let session = session.map_err(|error| ToolError::internal(error.to_string()))?;
        let (opened_by, store) = (actor, None);
        let wish = Wish { session, opened_by, spec, arguments: &arguments, config, store };
        let facts = self.toolbox.policy_facts(wish).await;
        let mut reports = heard(&config.toolset, &spec.name, facts).reports;
        for (source, Opinion { verdict, reason }) in file.says(&spec.name, &arguments) {
            let said = SourceReport { source, report: Report::Says { verdict, reason } };
            // The file may be the one that the node has already.
            if !reports.contains(&said) {
                reports.push(said);
            }
        }
        let derivation = Question {
            contract: spec.contract(),
            arguments: &arguments,
            level: config.level,
            profile: config.profile,
            exposure: &config.exposure,
            reports: &reports,
            grants: &[],
            now: self.toolbox.now(),
        }
        .derive();
        Ok(Ruled { tool, derivation })
    }
}
