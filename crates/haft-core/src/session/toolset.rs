//! What a session has of its own: the agent it runs, and the tools as that agent knows them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::name::ToolName;
use crate::permission::{Exposure, Verdict};
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

/// The network that an environment gives to the commands in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// None at all.
    #[default]
    Off,
    /// The host's own, with everything that the host reaches, Haft's port included.
    Host,
    /// The public internet, and nothing of this machine or of private networks.
    Public,
    /// Only these hosts.
    Limited(AllowedHosts),
}

/// The hosts that commands of an environment reach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct AllowedHosts {
    /// Names, with a port where it is not 80 or 443; `*.example.com` for every name below one.
    pub hosts: Vec<String>,
    /// Whether the package registries that the operator names are among them.
    pub package_managers: bool,
}

/// The tools as one session knows them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Toolset {
    /// Tools that only this session has. Someone outside runs them, so there is no code to find,
    /// and any node can go on with the session from its log. They stand before the node's own.
    #[serde(with = "as_texts", skip_serializing_if = "Vec::is_empty")]
    pub own: Vec<Definition>,
    /// What the session's model and its clients call tools, where that is not their name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<String, ToolName>,
    /// What the session's agent says about calls of a tool. `allow` lets a tool run unasked that
    /// its definition would have asked about; a tool that is not named here is as declared.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub verdicts: BTreeMap<ToolName, Verdict>,
    /// Which tools are those of an MCP server, in the words of the session's agent.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp: BTreeMap<ToolName, McpTool>,
}

/// A tool of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpTool {
    /// What the agent calls the server.
    pub server: String,
    /// What the server calls the tool.
    pub tool: String,
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

    /// Returns what another agent knows that works for this one: its own tools, and no laxer word
    /// about any than this one's.
    #[must_use]
    pub(super) fn joined_by(&self, colleague: &Self, exposure: &Exposure) -> Self {
        let mut verdicts = self.strictest(colleague);
        // As declared is stricter than allowed: each of the two who has a tool must allow it.
        let is_allowed_here =
            |tool: &ToolName| verdicts_allow(self, tool) || !exposure.permits(tool);
        verdicts.retain(|tool, verdict| {
            *verdict != Verdict::Allow || (verdicts_allow(colleague, tool) && is_allowed_here(tool))
        });
        Self { verdicts, ..colleague.clone() }
    }

    fn strictest(&self, child: &Self) -> BTreeMap<ToolName, Verdict> {
        let mut verdicts = self.verdicts.clone();
        for (tool, wish) in &child.verdicts {
            let verdict = verdicts.entry(tool.clone()).or_insert(*wish);
            *verdict = (*verdict).max(*wish);
        }
        verdicts
    }

    /// Returns what a child knows that wishes to know `child`: no tool of its own that its parent
    /// has not, and no laxer word about any.
    #[must_use]
    pub fn narrowed_by(&self, child: &Self) -> Self {
        let mut verdicts = self.strictest(child);
        // As declared is stricter than allowed.
        let is_laxer =
            |tool: &ToolName| !self.verdicts.contains_key(tool) && verdicts_allow(child, tool);
        verdicts.retain(|tool, _| !is_laxer(tool));
        let names = if child.names.is_empty() { &self.names } else { &child.names };
        let mut mcp = self.mcp.clone();
        mcp.extend(child.mcp.clone());
        Self { own: self.own.clone(), names: names.clone(), verdicts, mcp }
    }

    /// Returns what a tool is called outside.
    pub fn called<'a>(&'a self, name: &'a str) -> &'a str {
        let known = self.names.iter().find(|(_, tool)| tool.as_str() == name);
        known.map_or(name, |(called, _)| called)
    }
}

fn verdicts_allow(toolset: &Toolset, tool: &ToolName) -> bool {
    toolset.verdicts.get(tool) == Some(&Verdict::Allow)
}

/// Definitions are kept as texts: a schema keeps the order of its members, which an event that is
/// told apart by its type would lose on the way in, and its depth is not the log's.
mod as_texts {
    use serde::{Deserialize, Deserializer, Serialize as _, Serializer, de, ser};

    use crate::tool::Definition;

    pub(super) fn serialize<S: Serializer>(
        own: &[Definition],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let texts: Result<Vec<String>, _> = own.iter().map(serde_json::to_string).collect();
        texts.map_err(ser::Error::custom)?.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Definition>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        texts.iter().map(|text| serde_json::from_str(text).map_err(de::Error::custom)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::actor::Actor;
    use crate::id::SessionId;
    use crate::session::{Config, Event};
    use crate::tool::Schema;

    #[test]
    fn a_sessions_own_tools_read_back_from_its_log_as_they_were() {
        let schema = Schema::new(r#"{"type":"object","properties":{"b":{},"a":{}}}"#).unwrap();
        let tool = Definition::new(ToolName::new("weather").unwrap(), "The weather.", schema);
        let toolset = Toolset { own: vec![tool], ..Toolset::default() };
        let config = Arc::new(Config { toolset, ..Config::default() });
        let session = SessionId::from_bits(1);
        let opened = Event::SessionOpened { session, config, by: Actor::system(), parent: None };
        let text = serde_json::to_string(&opened).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), opened);
    }

    #[test]
    fn a_tool_is_found_by_what_the_session_calls_it_and_called_so_again() {
        let name = ToolName::new("agent_bash").unwrap();
        let names = BTreeMap::from([("bash".to_owned(), name)]);
        let toolset = Toolset { names, ..Toolset::default() };
        assert_eq!(toolset.meant("bash"), "agent_bash");
        assert_eq!(toolset.called("agent_bash"), "bash");
        assert_eq!((toolset.meant("read"), toolset.called("read")), ("read", "read"));
    }

    // S3-37: a roster's agent is allowed what it and its coordinator both allow.
    #[test]
    fn s3_37_a_colleague_is_allowed_only_what_both_allow() {
        let name = |name: &str| ToolName::new(name).unwrap();
        let says = |list: &[(&str, Verdict)]| Toolset {
            verdicts: list.iter().map(|(tool, verdict)| (name(tool), *verdict)).collect(),
            ..Toolset::default()
        };
        let has = ["both", "silent_colleague", "silent_coordinator"].map(name);
        let exposure = Exposure { allow: Some(has.into_iter().collect()), ..Exposure::default() };
        let coordinator = says(&[("both", Verdict::Allow), ("silent_colleague", Verdict::Allow)]);
        let colleague = says(&[
            ("both", Verdict::Allow),
            ("silent_coordinator", Verdict::Allow),
            ("only_colleague", Verdict::Allow),
        ]);
        assert_eq!(
            coordinator.joined_by(&colleague, &exposure),
            says(&[("both", Verdict::Allow), ("only_colleague", Verdict::Allow)])
        );
    }

    // S3-37: a child's agent cannot lower what its parent's says.
    #[test]
    fn s3_37_a_childs_toolset_is_at_least_as_strict() {
        let name = |name: &str| ToolName::new(name).unwrap();
        let says = |list: &[(&str, Verdict)]| Toolset {
            verdicts: list.iter().map(|(tool, verdict)| (name(tool), *verdict)).collect(),
            ..Toolset::default()
        };
        let parent = says(&[("a", Verdict::Ask), ("b", Verdict::Deny)]);
        let child = says(&[
            ("a", Verdict::Allow),
            ("b", Verdict::Ask),
            ("c", Verdict::Ask),
            ("d", Verdict::Allow),
        ]);
        let narrowed = parent.narrowed_by(&child);
        assert_eq!(
            narrowed,
            says(&[("a", Verdict::Ask), ("b", Verdict::Deny), ("c", Verdict::Ask)])
        );
    }
}
