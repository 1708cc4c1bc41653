//! How a node shows itself to MCP clients.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use haft_core::ToolName;
use haft_core::session::{Config, Driver};

/// How a node shows itself to MCP clients.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// What clients are told the server is called.
    pub name: String,
    /// What models are told about the server as a whole.
    pub instructions: Option<String>,
    /// The terms of the sessions in which calls are made: which tools, how much is asked.
    pub config: Config,
    /// Which sessions those are.
    pub sessions: SessionUse,
    /// What it means when the calling client answers for its user.
    pub consent: Consent,
    /// How long a request is held while its call waits for someone whom the client cannot ask.
    /// After that it is answered with a handle.
    pub patience: Duration,
    /// How long a call may run before a client that knows tasks is given one.
    pub task_after: Duration,
    /// Tools whose use of tasks is not left to that.
    pub tasks: BTreeMap<ToolName, TaskUse>,
    /// Where people approve, for those who are told that something waits.
    pub approve_at: Option<String>,
    /// Tools that are shown as prompts.
    pub prompts: BTreeSet<ToolName>,
    /// Tools that are shown as resources.
    pub resources: Vec<ResourceSource>,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            name: "haft".to_owned(),
            instructions: None,
            config: Config { driver: Driver::Caller, ..Config::default() },
            sessions: SessionUse::Many,
            consent: Consent::IsNoApproval,
            patience: Duration::from_secs(20),
            task_after: Duration::from_millis(500),
            tasks: BTreeMap::new(),
            approve_at: None,
            prompts: BTreeSet::new(),
            resources: Vec::new(),
        }
    }
}

/// In which sessions a principal's calls are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SessionUse {
    /// Each in one that serves no other call meanwhile: calls do not wait for each other.
    #[default]
    Many,
    /// All in one, as long as the process lives: what tools keep for a session, such as a shell,
    /// is there for the next call.
    One,
}

/// What the answer of the calling client to a question for approval is worth. It is the word of
/// whoever requested the call, and no third party's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Consent {
    /// Nothing: approval is asked for elsewhere, and the client is told where.
    #[default]
    IsNoApproval,
    /// As much as an approval: for a client that only the approver uses.
    Approves,
}

/// When a call of a tool becomes a task, for clients that know tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskUse {
    /// Never.
    Never,
    /// At once; other clients get the result when it is there.
    Preferred,
    /// At once; other clients are refused.
    Required,
    /// As soon as it has what it asks for at its start; other clients are refused.
    RequiredAfterInput,
}

/// A tool whose result is the content of resources.
#[derive(Debug, Clone)]
pub struct ResourceSource {
    /// The address, or a template of addresses with `{names}` that become arguments.
    pub uri: String,
    /// What it is called.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
    /// The media type.
    pub mime_type: Option<String>,
    /// The tool that is called for its content.
    pub tool: ToolName,
}

impl ResourceSource {
    /// Returns whether it stands for many addresses.
    pub(super) fn is_template(&self) -> bool {
        self.uri.contains('{')
    }

    /// Returns the arguments that an address stands for, if it is one of this source's.
    pub(super) fn arguments(&self, uri: &str) -> Option<BTreeMap<String, String>> {
        let (mut pattern, mut rest) = (self.uri.as_str(), uri);
        let mut found = BTreeMap::new();
        while let Some((before, after)) = pattern.split_once('{') {
            rest = rest.strip_prefix(before)?;
            let (name, next) = after.split_once('}')?;
            let end = match next.chars().next() {
                Some(stop) => rest.find(stop)?,
                None => rest.len(),
            };
            let (value, remaining) = rest.split_at(end);
            if value.is_empty() {
                return None;
            }
            found.insert(name.to_owned(), value.to_owned());
            (pattern, rest) = (next, remaining);
        }
        (pattern == rest).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(uri: &str) -> ResourceSource {
        ResourceSource {
            uri: uri.into(),
            name: "x".into(),
            description: None,
            mime_type: None,
            tool: ToolName::new("x").unwrap(),
        }
    }

    #[test]
    fn an_address_fits_one_source_and_fills_its_names() {
        let template = source("test://template/{id}/data");
        let found = template.arguments("test://template/7/data").unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [("id".to_owned(), "7".to_owned())]);
        for other in ["test://template//data", "test://template/7", "test://template/7/data/x"] {
            assert_eq!(template.arguments(other), None, "{other}");
        }
        assert_eq!(source("test://a").arguments("test://a"), Some(BTreeMap::new()));
        assert_eq!(source("test://a").arguments("test://ab"), None);
        assert_eq!(source("note://{name}").arguments("note://x y").unwrap()["name"], "x y");
    }
}
