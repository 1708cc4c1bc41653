//! The `mcp_toolset` of an agent: the tools of a server that is mounted here.
//!
//! An agent names its servers by address. Nothing is connected because an agent says so: what it
//! names must have been mounted by whoever runs this server, who has accepted its tools.

use haft_core::ToolName;
use haft_core::permission::Verdict;
use haft_core::session::McpTool;
use haft_mcp::{Mounted, Peer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::plan::{DefaultConfig, Policy};

/// How an agent names a server that was mounted by a command, which has no address.
const BY_NAME: &str = "haft://mcp/";

/// A server that an agent knows.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpServerParam {
    pub(crate) name: String,
    #[serde(rename = "type")]
    kind: UrlType,
    url: String,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
enum UrlType {
    #[serde(rename = "url")]
    Url,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpToolset {
    mcp_server_name: String,
    #[serde(default)]
    configs: Vec<McpToolConfig>,
    #[serde(default)]
    default_config: Option<DefaultConfig>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct McpToolConfig {
    name: String,
    enabled: Option<bool>,
    permission_policy: Option<Policy>,
}

/// A tool that an agent has of a server.
pub(crate) struct Chosen {
    pub(crate) name: ToolName,
    pub(crate) mcp: McpTool,
    pub(crate) verdict: Option<Verdict>,
}

/// Checks the servers of an agent.
pub(crate) fn checked_servers(
    servers: &[McpServerParam],
    mounted: &[Mounted],
) -> Result<(), Error> {
    for (at, server) in servers.iter().enumerate() {
        if !(1..=255).contains(&server.name.chars().count()) {
            return Err(Error::invalid("mcp_servers: expected a `name` of 1 to 255 characters"));
        }
        if servers.iter().take(at).any(|other| other.name == server.name) {
            let message = format!("mcp_servers: two servers are called {:?}", server.name);
            return Err(Error::invalid(message));
        }
        find(server, mounted)?;
    }
    Ok(())
}

fn find<'a>(server: &McpServerParam, mounted: &'a [Mounted]) -> Result<&'a Mounted, Error> {
    let name = server.url.trim_end_matches('/').strip_prefix(BY_NAME);
    let is_meant = |mount: &&Mounted| match (&mount.config.peer, name) {
        (_, Some(name)) => mount.config.name.as_str() == name,
        (Peer::Http { url, .. }, None) => is_same_address(url, &server.url),
        (Peer::Command { .. }, None) => false,
    };
    mounted.iter().find(is_meant).ok_or_else(|| {
        Error::invalid(format!(
            "mcp_servers: no server is mounted here as `{}`; mount it with `haft mcp add`, or name \
             a mounted one as `{BY_NAME}NAME`",
            server.url
        ))
    })
}

/// Whether two addresses are those of one server.
pub(crate) fn is_same_address(one: &str, other: &str) -> bool {
    let parts = |url: &str| {
        let url = url.trim_end_matches('/');
        let host_at = url.find("://").map_or(0, |at| at + 3);
        let path_at = url[host_at..].find('/').map_or(url.len(), |at| host_at + at);
        (url[..path_at].to_ascii_lowercase(), url[path_at..].to_owned())
    };
    parts(one) == parts(other)
}

impl McpToolset {
    fn default_policy(&self) -> Policy {
        let default = self.default_config.as_ref();
        default.and_then(|default| default.permission_policy).unwrap_or(Policy::AlwaysAsk)
    }

    fn is_enabled_by_default(&self) -> bool {
        self.default_config.as_ref().and_then(|default| default.enabled).unwrap_or(true)
    }

    fn mount<'a>(
        &self,
        servers: &[McpServerParam],
        mounted: &'a [Mounted],
    ) -> Result<&'a Mounted, Error> {
        let server = servers.iter().find(|server| server.name == self.mcp_server_name);
        let server = server.ok_or_else(|| {
            let name = &self.mcp_server_name;
            Error::invalid(format!("tools: `mcp_servers` has no server called {name:?}"))
        })?;
        find(server, mounted)
    }

    /// Fills in what was left out, and refuses what is not there.
    pub(crate) fn settled(
        &self,
        servers: &[McpServerParam],
        mounted: &[Mounted],
    ) -> Result<Self, Error> {
        let mount = self.mount(servers, mounted)?;
        let mut configs = Vec::new();
        for config in &self.configs {
            let name = &config.name;
            let waits = mount.report.pending.iter().any(|change| change.tool == *name);
            if !waits && !mount.report.tools.contains_key(name) {
                let server = &self.mcp_server_name;
                return Err(Error::invalid(format!("tools: {server:?} has no tool {name:?}")));
            }
            configs.push(McpToolConfig {
                name: name.clone(),
                enabled: Some(config.enabled.unwrap_or_else(|| self.is_enabled_by_default())),
                permission_policy: Some(
                    config.permission_policy.unwrap_or_else(|| self.default_policy()),
                ),
            });
        }
        let default_config = Some(DefaultConfig {
            enabled: Some(self.is_enabled_by_default()),
            permission_policy: Some(self.default_policy()),
        });
        Ok(Self { mcp_server_name: self.mcp_server_name.clone(), configs, default_config })
    }

    /// Returns the tools that an agent has of the server as it stands.
    pub(crate) fn chosen(
        &self,
        servers: &[McpServerParam],
        mounted: &[Mounted],
    ) -> Result<Vec<Chosen>, Error> {
        let mount = self.mount(servers, mounted)?;
        let chosen = mount.report.tools.iter().filter_map(|(tool, name)| {
            let config = self.configs.iter().find(|config| config.name == *tool);
            let enabled = config.and_then(|config| config.enabled);
            if !enabled.unwrap_or_else(|| self.is_enabled_by_default()) {
                return None;
            }
            let policy = config.and_then(|config| config.permission_policy);
            let verdict = policy.unwrap_or_else(|| self.default_policy()).verdict();
            let server = self.mcp_server_name.clone();
            let mcp = McpTool { server, tool: tool.clone() };
            Some(Chosen { name: name.clone(), mcp, verdict })
        });
        Ok(chosen.collect())
    }
}
