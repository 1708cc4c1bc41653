//! From what a client says about an agent to how its sessions behave.

use std::collections::{BTreeMap, BTreeSet};

use haft_agent::ModelName;
use haft_core::permission::{Exposure, Level, Verdict};
use haft_core::session::{Agent, Colleague, Config, Environment, Toolset};
use haft_core::tool::{Definition, Executor, Gate, Ownership, Schema};
use haft_core::{Millis, ToolName};
use haft_runtime::registry::Registry;
use haft_tools::{agent_tool_name, agent_toolset, agent_wire_name};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::app::Ground;
use crate::error::Error;
use crate::haft_toolset::HaftToolset;
use crate::mcp_toolset::{McpServerParam, McpToolset};
use crate::memory_tools::{self, AttachedStore};
use crate::roster;
use crate::skills::{Skill, introduced};

/// The tools of the toolset that need a network service, which this server has not.
const ABSENT: [&str; 2] = ["web_fetch", "web_search"];

/// What a client declares about the tools of an agent, and what is kept of it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub(crate) enum ToolParam {
    #[serde(rename = "agent_toolset_20260401")]
    AgentToolset(AgentToolset),
    #[serde(rename = "custom")]
    Custom(CustomTool),
    #[serde(rename = "mcp_toolset")]
    McpToolset(McpToolset),
    #[serde(rename = "haft_toolset")]
    HaftToolset(HaftToolset),
    #[serde(rename = "haft_tool")]
    HaftTool(HaftTool),
}

/// A tool in Haft's own words: one that the server has, by its name, or one that a person or a
/// client runs, by its definition. The wire API has no word for a form that a person fills in, nor
/// for what an answer must look like.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HaftTool {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    definition: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    permission_policy: Option<Policy>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentToolset {
    #[serde(default)]
    configs: Vec<ToolConfig>,
    #[serde(default)]
    default_config: Option<DefaultConfig>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CustomTool {
    name: String,
    description: String,
    input_schema: Value,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DefaultConfig {
    pub(crate) enabled: Option<bool>,
    pub(crate) permission_policy: Option<Policy>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolConfig {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) enabled: Option<bool>,
    pub(crate) permission_policy: Option<Policy>,
}

impl ToolConfig {
    /// Refuses a `type` that is not the tool's name, as the SDKs have it.
    pub(crate) fn require_kind(&self) -> Result<(), Error> {
        let name = &self.name;
        match self.kind.as_deref().is_none_or(|kind| kind == name) {
            true => Ok(()),
            false => Err(Error::invalid(format!("tools: `{name}`: `type` must be its name"))),
        }
    }
}

/// What is done with calls of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "PermissionPolicy")]
pub(crate) enum Policy {
    /// Nobody is asked, whatever the tool declares; tools that always ask still do.
    AlwaysAllow,
    AlwaysAsk,
    /// What is known about the tool decides.
    Auto,
    /// What the tool declares decides.
    AsDeclared,
}

impl Policy {
    /// What it says about calls of a tool; `None` leaves that to what the tool declares.
    pub(crate) fn verdict(self) -> Option<Verdict> {
        match self {
            Self::AlwaysAllow => Some(Verdict::Allow),
            Self::AlwaysAsk => Some(Verdict::Ask),
            Self::Auto | Self::AsDeclared => None,
        }
    }
}

impl AgentToolset {
    fn default_policy(&self) -> Policy {
        let default = self.default_config.as_ref();
        default.and_then(|default| default.permission_policy).unwrap_or(Policy::AlwaysAllow)
    }

    fn is_enabled_by_default(&self) -> bool {
        self.default_config.as_ref().and_then(|default| default.enabled).unwrap_or(true)
    }

    /// Fills in what was left out, and refuses what is not there.
    fn settled(&self) -> Result<Self, Error> {
        let mut configs = Vec::new();
        for config in &self.configs {
            let name = config.name.as_str();
            let is_known = agent_tool_name(name).is_some();
            if !is_known && !ABSENT.contains(&name) {
                return Err(Error::invalid(format!("tools: the toolset has no tool {name:?}")));
            }
            config.require_kind()?;
            let enabled =
                config.enabled.unwrap_or_else(|| is_known && self.is_enabled_by_default());
            if enabled && !is_known {
                return Err(Error::unsupported(&format!("the tool `{name}` of the toolset")));
            }
            let policy = config.permission_policy.unwrap_or_else(|| self.default_policy());
            configs.push(ToolConfig {
                name: name.to_owned(),
                kind: Some(name.to_owned()),
                enabled: Some(enabled),
                permission_policy: Some(policy),
            });
        }
        for absent in ABSENT {
            if !configs.iter().any(|config| config.name == absent) {
                configs.push(ToolConfig {
                    name: absent.to_owned(),
                    kind: Some(absent.to_owned()),
                    enabled: Some(false),
                    permission_policy: Some(self.default_policy()),
                });
            }
        }
        let default_config = Some(DefaultConfig {
            enabled: Some(self.is_enabled_by_default()),
            permission_policy: Some(self.default_policy()),
        });
        Ok(Self { configs, default_config })
    }

    fn config(&self, called: &str) -> (bool, Policy) {
        let config = self.configs.iter().find(|config| config.name == called);
        let enabled = config.and_then(|config| config.enabled);
        let policy = config.and_then(|config| config.permission_policy);
        (
            enabled.unwrap_or_else(|| self.is_enabled_by_default()),
            policy.unwrap_or_else(|| self.default_policy()),
        )
    }
}

/// What the tools of an agent mean for its sessions.
#[derive(Debug, Default)]
struct Planned {
    toolset: Toolset,
    exposed: BTreeSet<ToolName>,
    called: BTreeSet<String>,
}

impl Planned {
    fn claim(&mut self, called: &str) -> Result<(), Error> {
        let is_alike = |other: &&String| other.eq_ignore_ascii_case(called);
        if let Some(other) = self.called.iter().find(is_alike).filter(|other| *other != called) {
            return Err(Error::invalid(format!(
                "tools: {called:?} and {other:?} differ by case only and would be confused; rename \
                 one of them"
            )));
        }
        match self.called.insert(called.to_owned()) {
            true => Ok(()),
            false => Err(Error::invalid(format!("tools: two tools are called {called:?}"))),
        }
    }

    /// Keeps what the agent says about calls of a tool.
    fn say(&mut self, tool: ToolName, verdict: Option<Verdict>) {
        if let Some(verdict) = verdict {
            self.toolset.verdicts.insert(tool, verdict);
        }
    }

    fn add_managed(&mut self, given: &HaftToolset) -> Result<(), Error> {
        for tool in given.chosen() {
            self.add_registered(tool.name, tool.verdict)?;
        }
        Ok(())
    }

    fn add_haft_tool(&mut self, given: &HaftTool, ground: &Ground) -> Result<(), Error> {
        let verdict = given.permission_policy.and_then(Policy::verdict);
        match (&given.name, &given.definition) {
            (Some(name), None) => {
                let found = ground.tool(name).filter(|tool| {
                    let spec = tool.spec();
                    spec.executor == Executor::Server && spec.ownership != Ownership::Mcp
                });
                let found = found.ok_or_else(|| {
                    Error::invalid(format!(
                        "tools: `haft_tool`: the server has no tool `{name}` that it runs; `GET \
                         /haft/v1/tools` lists its tools. If a worker has it, start the worker \
                         first; a mounted server's tool is in an `mcp_toolset`"
                    ))
                })?;
                self.add_registered(found.name().clone(), verdict)
            }
            (None, Some(definition)) => self.add_defined(definition, verdict, ground.suspend_ttl),
            (Some(_), Some(_)) | (None, None) => Err(Error::invalid(
                "tools: `haft_tool`: expected either the `name` of a tool that the server has or a \
                 `definition`",
            )),
        }
    }

    fn add_registered(&mut self, name: ToolName, verdict: Option<Verdict>) -> Result<(), Error> {
        self.claim(name.as_str())?;
        self.exposed.insert(name.clone());
        self.say(name, verdict);
        Ok(())
    }

    fn add_toolset(&mut self, given: &AgentToolset) -> Result<(), Error> {
        for Definition { name, .. } in agent_toolset() {
            let Some(called) = agent_wire_name(&name) else { continue };
            let (enabled, policy) = given.config(called);
            if !enabled {
                continue;
            }
            self.claim(called)?;
            self.toolset.names.insert(called.to_owned(), name.clone());
            self.exposed.insert(name.clone());
            // What the toolset's tools do is known: only a command may do anything at all.
            let verdict = match policy {
                Policy::Auto if called == "bash" => Some(Verdict::Ask),
                policy => policy.verdict(),
            };
            self.say(name, verdict);
        }
        Ok(())
    }

    fn add_mcp(
        &mut self,
        given: &McpToolset,
        servers: &[McpServerParam],
        ground: &Ground,
    ) -> Result<(), Error> {
        for tool in given.chosen(servers, &ground.mounted)? {
            self.claim(tool.name.as_str())?;
            self.exposed.insert(tool.name.clone());
            self.say(tool.name.clone(), tool.verdict);
            self.toolset.mcp.insert(tool.name, tool.mcp);
        }
        Ok(())
    }

    fn add_custom(&mut self, given: &CustomTool, suspend_ttl: Millis) -> Result<(), Error> {
        self.claim(&given.name)?;
        let named = |error: String| Error::invalid(format!("tools: {:?}: {error}", given.name));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let length = given.name.chars().count();
        if !(1..=128).contains(&length) || !given.name.chars().all(is_plain) {
            let message = "expected a name of 1 to 128 letters, digits, `_` and `-`";
            return Err(named(message.to_owned()));
        }
        let name = self.free_name(&given.name);
        let schema = Schema::from_value(&given.input_schema);
        let schema = schema.map_err(|error| named(format!("input_schema: {error}")))?;
        let mut definition = Definition::new(name.clone(), &given.description, schema);
        definition.executor = Executor::Client;
        definition.ownership = Ownership::Custom;
        // The client runs it, and can decline.
        definition.gate = Gate::Auto;
        definition.suspend_ttl = suspend_ttl;
        Registry::new().declare(definition.clone()).map_err(|error| named(error.to_string()))?;
        self.exposed.insert(name.clone());
        if name.as_str() != given.name {
            self.toolset.names.insert(given.name.clone(), name);
        }
        self.toolset.own.push(definition);
        Ok(())
    }

    fn add_defined(
        &mut self,
        definition: &Value,
        verdict: Option<Verdict>,
        suspend_ttl: Millis,
    ) -> Result<(), Error> {
        // Read from text, in which a schema keeps the order of its members.
        let text = definition.to_string();
        let mut definition: Definition = serde_json::from_str(&text)
            .map_err(|error| Error::invalid(format!("tools: `haft_tool`: {error}")))?;
        let name = definition.name.clone();
        self.claim(name.as_str())?;
        let wrong = |error: String| Error::invalid(format!("tools: `{name}`: {error}"));
        if !matches!(definition.executor, Executor::Human | Executor::Client) {
            let message = "expected an executor that is outside: `human` or `client`";
            return Err(wrong(message.to_owned()));
        }
        require_outside(&definition).map_err(wrong)?;
        definition.suspend_ttl = suspend_ttl;
        Registry::new().declare(definition.clone()).map_err(|error| wrong(error.to_string()))?;
        self.exposed.insert(name.clone());
        self.say(name, verdict);
        self.toolset.own.push(definition);
        Ok(())
    }

    /// A canonical name that nothing else in the session has.
    fn free_name(&self, called: &str) -> ToolName {
        let folded: String = called
            .chars()
            .map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() })
            .take(48)
            .collect();
        let candidates = [called.to_owned(), folded.clone(), format!("custom_{folded}")];
        let numbered = (1u32..).map(|n| format!("custom_{n}"));
        let mut free = candidates.into_iter().chain(numbered).filter_map(|text| {
            let name = ToolName::new(&text).ok()?;
            let is_taken = self.exposed.contains(&name) || text.starts_with("agent_");
            (!is_taken).then_some(name)
        });
        free.next().unwrap_or_else(|| unreachable!("there are more numbers than tools"))
    }
}

/// Checks an agent's tools, and returns them as they are kept.
pub(crate) fn settled_tools(
    tools: &[ToolParam],
    servers: &[McpServerParam],
    ground: &Ground,
) -> Result<Vec<ToolParam>, Error> {
    let mut settled = Vec::with_capacity(tools.len());
    for tool in tools {
        settled.push(match tool {
            ToolParam::AgentToolset(toolset) => ToolParam::AgentToolset(toolset.settled()?),
            ToolParam::Custom(custom) => ToolParam::Custom(custom.clone()),
            ToolParam::HaftTool(tool) => ToolParam::HaftTool(tool.clone()),
            ToolParam::HaftToolset(toolset) => ToolParam::HaftToolset(toolset.settled()?),
            ToolParam::McpToolset(toolset) => {
                ToolParam::McpToolset(toolset.settled(servers, &ground.mounted)?)
            }
        });
    }
    planned(&settled, servers, ground)?;
    Ok(settled)
}

/// Whether an agent can read the files of its workspace.
pub(crate) fn reads_files(tools: &[ToolParam]) -> bool {
    tools.iter().any(|tool| match tool {
        ToolParam::AgentToolset(toolset) => toolset.config("read").0 || toolset.config("bash").0,
        ToolParam::HaftToolset(toolset) => toolset.has("read") || toolset.has("bash"),
        ToolParam::Custom(_) | ToolParam::McpToolset(_) | ToolParam::HaftTool(_) => false,
    })
}

/// Refuses what only code beside the server can do for a tool.
fn require_outside(definition: &Definition) -> Result<(), String> {
    let without_code = |member: &str| {
        Err(format!(
            "`{member}` needs code that Haft runs; register the tool with the server or with a \
             worker, and name it here as `{{\"type\":\"haft_tool\",\"name\":…}}`"
        ))
    };
    if definition.undo.is_some() {
        return without_code("undo");
    }
    if !definition.hooks.is_empty() {
        return without_code("hooks");
    }
    Ok(())
}

/// Refuses both sets at once: each has a `bash`, a `read` … of its own.
fn require_one_toolset(tools: &[ToolParam]) -> Result<(), Error> {
    let has = |is_meant: fn(&ToolParam) -> bool| tools.iter().any(is_meant);
    let both = has(|tool| matches!(tool, ToolParam::AgentToolset(_)))
        && has(|tool| matches!(tool, ToolParam::HaftToolset(_)));
    match both {
        false => Ok(()),
        true => Err(Error::invalid(
            "tools: an agent has `agent_toolset_20260401` or `haft_toolset`, not both: their tools \
             share names and mean others",
        )),
    }
}

fn planned(
    tools: &[ToolParam],
    servers: &[McpServerParam],
    ground: &Ground,
) -> Result<Planned, Error> {
    require_one_toolset(tools)?;
    let mut planned = Planned::default();
    let suspend_ttl = ground.suspend_ttl;
    for tool in tools {
        match tool {
            ToolParam::AgentToolset(toolset) => planned.add_toolset(toolset)?,
            ToolParam::Custom(_) => {}
            ToolParam::HaftToolset(toolset) => planned.add_managed(toolset)?,
            ToolParam::HaftTool(tool) => planned.add_haft_tool(tool, ground)?,
            ToolParam::McpToolset(toolset) => planned.add_mcp(toolset, servers, ground)?,
        }
    }
    // After the toolset, so that its tools keep their names.
    for tool in tools {
        if let ToolParam::Custom(custom) = tool {
            planned.add_custom(custom, suspend_ttl)?;
        }
    }
    Ok(planned)
}

/// Which agent a session runs, and where.
#[derive(Debug)]
pub(crate) struct Cast {
    pub(crate) id: String,
    pub(crate) version: u64,
    pub(crate) model: String,
    /// How much is asked in its sessions.
    pub(crate) level: Level,
    pub(crate) instructions: Option<String>,
    pub(crate) tools: Vec<ToolParam>,
    pub(crate) servers: Vec<McpServerParam>,
    pub(crate) environment: Environment,
    pub(crate) skills: Vec<Skill>,
    pub(crate) stores: Vec<AttachedStore>,
    /// To whom it may give work.
    pub(crate) roster: Vec<Member>,
}

/// An agent to which another one may give work. It has no roster itself.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) cast: Cast,
}

impl Cast {
    /// Attaches memory stores: all who work in a session have them.
    pub(crate) fn attach(&mut self, stores: &[AttachedStore]) {
        self.stores = stores.to_vec();
        self.roster.iter_mut().for_each(|member| member.cast.attach(stores));
    }
}

/// Returns how a session of an agent behaves.
pub(crate) fn config(cast: Cast, ground: &Ground) -> Result<Config, Error> {
    let mut terms = terms(&cast.tools, &cast.servers, cast.level, ground)?;
    let Cast { id, version, model, instructions, environment, skills, stores, roster, .. } = cast;
    let instructions = introduced(instructions, &skills);
    let instructions = memory_tools::introduced(instructions, &stores);
    let instructions = roster::introduced(instructions, &roster);
    let exposed = terms.exposure.allow.get_or_insert_default();
    for tool in memory_tools::tools(&stores).into_iter().chain(roster::tools(&roster)) {
        if !exposed.insert(tool.clone()) {
            return Err(Error::invalid(format!("tools: two tools are called \"{tool}\"")));
        }
    }
    let agent = Agent { id, version, model, instructions, environment: Some(environment) };
    let colleague = |Member { name, description, cast }| {
        Ok(Colleague { name, description, config: config(cast, ground)? })
    };
    let roster = roster.into_iter().map(colleague).collect::<Result<_, Error>>()?;
    Ok(Config { agent: Some(agent), roster, ..terms })
}

/// Returns which tools an agent's sessions have, and who is asked about them.
pub(crate) fn terms(
    tools: &[ToolParam],
    servers: &[McpServerParam],
    level: Level,
    ground: &Ground,
) -> Result<Config, Error> {
    let Planned { toolset, exposed, .. } = planned(tools, servers, ground)?;
    Ok(Config {
        exposure: Exposure { allow: Some(exposed), ..Exposure::default() },
        level,
        toolset,
        suspend_ttl: Some(ground.suspend_ttl),
        ..Config::default()
    })
}

/// What a client says about a model.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum ModelParam {
    Name(String),
    Config(ModelParams),
}

/// What a client says about a model at length.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelParams {
    id: String,
    effort: Option<Value>,
    inference_geo: Option<String>,
    speed: Option<String>,
}

/// Checks a model's name, and returns the model as it is kept.
pub(crate) fn settled_model(model: &ModelParam) -> Result<Value, Error> {
    let id = match model {
        ModelParam::Name(id) => id,
        ModelParam::Config(ModelParams { id, effort, inference_geo, speed }) => {
            if effort.is_some() {
                return Err(Error::unsupported("`model.effort`"));
            }
            if inference_geo.is_some() {
                return Err(Error::unsupported("`model.inference_geo`"));
            }
            if speed.as_deref().is_some_and(|speed| speed != "standard") {
                return Err(Error::unsupported("a `model.speed` other than `standard`"));
            }
            id
        }
    };
    let known: Result<ModelName, _> = id.parse();
    known.map_err(|error| Error::invalid(format!("model: {error}")))?;
    Ok(json!({ "id": id, "speed": "standard" }))
}

/// Checks the free words that a client puts beside something.
pub(crate) fn checked_metadata(metadata: &BTreeMap<String, String>) -> Result<(), Error> {
    let fits = metadata.len() <= 16
        && metadata.iter().all(|(key, value)| {
            (1..=64).contains(&key.chars().count()) && value.chars().count() <= 512
        });
    match fits {
        true => Ok(()),
        false => Err(Error::invalid(
            "metadata: expected at most 16 pairs, keys of 1 to 64 and values of up to 512 characters",
        )),
    }
}

/// Checks how much is asked, and returns it; what is not said is `cautious`.
pub(crate) fn settled_level(given: Option<&str>) -> Result<Level, Error> {
    let Some(given) = given else { return Ok(Level::default()) };
    serde_json::from_value(given.into()).map_err(|_| {
        Error::invalid(format!(
            "permission_level: expected `autonomous`, `cautious`, `standard` or `paranoid`, found \
             {given:?}"
        ))
    })
}
