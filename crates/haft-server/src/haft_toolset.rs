//! The managed tools, as an agent's `tools` name them: all of them as a set, or a single tool that
//! the server has.

use haft_core::ToolName;
use haft_core::permission::Verdict;
use haft_tools::catalogue;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::plan::{DefaultConfig, Policy, ToolConfig};

/// The managed tools, in the shape that the SDKs' own toolset has.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HaftToolset {
    #[serde(default)]
    configs: Vec<ToolConfig>,
    #[serde(default)]
    default_config: Option<DefaultConfig>,
}

/// A managed tool that an agent has, and what the agent says about its calls.
#[derive(Debug)]
pub(crate) struct ManagedTool {
    pub(crate) name: ToolName,
    pub(crate) verdict: Option<Verdict>,
}

impl HaftToolset {
    fn default_policy(&self) -> Policy {
        let default = self.default_config.as_ref();
        default.and_then(|default| default.permission_policy).unwrap_or(Policy::AsDeclared)
    }

    fn is_enabled_by_default(&self) -> bool {
        self.default_config.as_ref().and_then(|default| default.enabled).unwrap_or(true)
    }

    /// Fills in what was left out, and refuses what is not there.
    pub(crate) fn settled(&self) -> Result<Self, Error> {
        let managed = catalogue();
        let mut configs = Vec::with_capacity(self.configs.len());
        for config in &self.configs {
            let name = config.name.as_str();
            if !managed.iter().any(|definition| definition.name.as_str() == name) {
                let message = format!(
                    "tools: `haft_toolset` has no tool {name:?}; `haft tools list` shows its tools"
                );
                return Err(Error::invalid(message));
            }
            if configs.iter().any(|settled: &ToolConfig| settled.name == name) {
                let message = format!("tools: `haft_toolset` configures {name:?} twice");
                return Err(Error::invalid(message));
            }
            config.require_kind()?;
            configs.push(ToolConfig {
                name: name.to_owned(),
                kind: Some(name.to_owned()),
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
        Ok(Self { configs, default_config })
    }

    /// Returns the managed tools that the agent has.
    pub(crate) fn chosen(&self) -> Vec<ManagedTool> {
        let all = catalogue().into_iter().map(|definition| definition.name);
        all.filter_map(|name| {
            let config = self.configs.iter().find(|config| config.name == name.as_str());
            let enabled = config.and_then(|config| config.enabled);
            let policy = config.and_then(|config| config.permission_policy);
            let verdict = policy.unwrap_or_else(|| self.default_policy()).verdict();
            let is_enabled = enabled.unwrap_or_else(|| self.is_enabled_by_default());
            is_enabled.then_some(ManagedTool { name, verdict })
        })
        .collect()
    }

    /// Whether the agent has a tool of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.chosen().iter().any(|tool| tool.name.as_str() == name)
    }
}
