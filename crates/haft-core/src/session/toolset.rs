//! What a session has of its own: the agent it runs, and the tools as that agent knows them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::name::ToolName;
use crate::permission::Verdict;
use crate::tool::Definition;

/// The agent that a session runs, as it was when the session opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// Which.
    pub id: String,
    /// Which version of it.
    pub version: u64,
    /// The model that answers.
    pub model: String,
    /// What the model is told before everything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Where it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
}

/// Where an agent works, as it was when the session opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Which.
    pub id: String,
    /// What its commands reach.
    pub network: Network,
}

/// The network that an environment gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// None at all.
    Off,
    /// The host's.
    Host,
}

/// The tools as one session knows them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Toolset {
    /// Tools that only this session has. Someone outside runs them, so there is no code to find,
    /// and any node can go on with the session from its log. They stand before the node's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub own: Vec<Definition>,
    /// What the session's model and its clients call tools, where that is not their name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<String, ToolName>,
    /// What the session's agent says about calls of a tool.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub verdicts: BTreeMap<ToolName, Verdict>,
}

impl Toolset {
    /// Returns the session's own tool of a name.
    pub fn own(&self, name: &str) -> Option<&Definition> {
        self.own.iter().find(|definition| definition.name.as_str() == name)
    }

    /// Returns the name of the tool that the session's model means.
    pub fn meant<'a>(&'a self, called: &'a str) -> &'a str {
        self.names.get(called).map_or(called, ToolName::as_str)
    }

    /// Returns what a tool is called outside.
    pub fn called<'a>(&'a self, name: &'a str) -> &'a str {
        let known = self.names.iter().find(|(_, tool)| tool.as_str() == name);
        known.map_or(name, |(called, _)| called)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_found_by_what_the_session_calls_it_and_called_so_again() {
        let name = ToolName::new("toolset_bash").unwrap();
        let names = BTreeMap::from([("bash".to_owned(), name)]);
        let toolset = Toolset { names, ..Toolset::default() };
        assert_eq!(toolset.meant("bash"), "toolset_bash");
        assert_eq!(toolset.called("toolset_bash"), "bash");
        assert_eq!((toolset.meant("read"), toolset.called("read")), ("read", "read"));
    }
}
