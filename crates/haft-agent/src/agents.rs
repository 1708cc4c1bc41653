//! From a description to a running loop: which model answers a session, and who works for whom.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use haft_core::permission::{Exposure, Level};
use haft_core::session::{Agent, Config, Limits, Returned, Summary};
use haft_core::tool::{Definition, Gate, Mutates, Schema};
use haft_core::{ContentBlock, ErrorClass, Failure, Millis, NameError, ToolName};
use haft_runtime::{
    Delegated, Model, ModelAnswer, ModelError, ModelRequest, Tool, ToolArguments, ToolContext,
    ToolError, ToolFuture,
};
use serde_json::{Value, json};

use crate::model::{ModelConfig, ProviderModel};
use crate::name::{ModelName, ModelNameError, Vendor};
use crate::provider::{ProviderConfig, ProviderError};
use crate::scripted::{Script, ScriptedModel};

/// How long a parent waits for its sub-agent.
const PATIENCE: Millis = Millis::from_secs(7 * 24 * 3600);

/// Where the models are: one provider for each vendor, and the scripts by their names.
#[derive(Debug, Clone, Default)]
pub struct Providers {
    /// Who answers for `openai/…`.
    pub openai: Option<ProviderConfig>,
    /// Who answers for `anthropic/…`.
    pub anthropic: Option<ProviderConfig>,
    /// What `scripted/…` says.
    pub scripts: BTreeMap<String, Script>,
}

/// Why a model cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// The name names none.
    #[error(transparent)]
    Name(#[from] ModelNameError),
    /// Nobody answers for its vendor.
    #[error("expected a provider for `{}/…`; give one a base URL and, if it wants one, a key", .vendor.as_str())]
    NoProvider {
        /// Whose model it would be.
        vendor: Vendor,
    },
    /// There is no such script.
    #[error("expected one of the scripts {known:?}, found {found:?}")]
    NoScript {
        /// What was asked for.
        found: String,
        /// What there is.
        known: Vec<String>,
    },
    /// The provider cannot be used as it is configured.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

type Adjust = Arc<dyn Fn(&mut ModelConfig) + Send + Sync>;

/// The models of a node. A session is answered by the one that its agent names, and without an
/// agent by the default one.
pub struct Models {
    providers: Providers,
    default: Option<ModelName>,
    adjust: Adjust,
    made: Mutex<BTreeMap<String, Arc<dyn Model>>>,
}

impl Models {
    /// Models behind these providers, and none without a name.
    pub fn new(providers: Providers) -> Self {
        let adjust: Adjust = Arc::new(|_| {});
        Self { providers, default: None, adjust, made: Mutex::default() }
    }

    /// Has sessions without an agent answered by this model.
    #[must_use]
    pub fn default_model(mut self, name: ModelName) -> Self {
        self.default = Some(name);
        self
    }

    /// Changes how every model is asked: its budget, its style, what else its provider is told.
    #[must_use]
    pub fn adjust(mut self, adjust: impl Fn(&mut ModelConfig) + Send + Sync + 'static) -> Self {
        self.adjust = Arc::new(adjust);
        self
    }

    /// Returns the model of a name. The same name is the same model.
    ///
    /// # Errors
    ///
    /// When nobody answers for it.
    pub fn model(&self, name: &ModelName) -> Result<Arc<dyn Model>, ChoiceError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = made.get(&name.to_string()) {
            return Ok(Arc::clone(model));
        }
        let model = self.make(name)?;
        made.insert(name.to_string(), Arc::clone(&model));
        Ok(model)
    }

    fn make(&self, name: &ModelName) -> Result<Arc<dyn Model>, ChoiceError> {
        let provider = match name.vendor {
            Vendor::OpenAi => self.providers.openai.as_ref(),
            Vendor::Anthropic => self.providers.anthropic.as_ref(),
            Vendor::Scripted => {
                let scripts = &self.providers.scripts;
                let script = scripts.get(&name.name).ok_or_else(|| ChoiceError::NoScript {
                    found: name.name.clone(),
                    known: scripts.keys().cloned().collect(),
                })?;
                return Ok(Arc::new(ScriptedModel::new(script.clone())));
            }
        };
        let vendor = name.vendor;
        let provider = provider.ok_or(ChoiceError::NoProvider { vendor })?;
        let mut config = ModelConfig::new(provider.clone(), name.name.clone());
        (self.adjust)(&mut config);
        Ok(Arc::new(ProviderModel::new(config)?))
    }

    fn chosen(&self, request: &ModelRequest) -> Result<Arc<dyn Model>, String> {
        let agent = request.open.config.agent.as_ref();
        let named = agent.map(|agent| agent.model.parse::<ModelName>()).transpose();
        let chosen = named.map_err(ChoiceError::from).and_then(|named| {
            named.or_else(|| self.default.clone()).map(|name| self.model(&name)).transpose()
        });
        let none = || "the session has no agent and the node no default model".to_owned();
        chosen.map_err(|error| error.to_string())?.ok_or_else(none)
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { providers, default, .. } = self;
        f.debug_struct("Models")
            .field("providers", providers)
            .field("default", default)
            .finish_non_exhaustive()
    }
}

impl Model for Models {
    fn answer(&self, request: ModelRequest) -> ToolFuture<'_, Result<ModelAnswer, ModelError>> {
        Box::pin(async move {
            let chosen = self.chosen(&request);
            let failed = |message| Failure::new(ErrorClass::Internal, message);
            chosen.map_err(failed)?.answer(request).await
        })
    }

    fn summarise<'a>(&'a self, request: &'a ModelRequest) -> ToolFuture<'a, Option<Summary>> {
        Box::pin(async move { self.chosen(request).ok()?.summarise(request).await })
    }
}

/// An agent as it is described: its model, what it is told, what it may use, who works for it.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentSpec {
    /// Its name: as a sub-agent it is called by it.
    pub name: ToolName,
    /// What it is good for, for whoever may give it work.
    pub description: String,
    /// The model that answers.
    pub model: ModelName,
    /// What the model is told before everything else.
    pub instructions: Option<String>,
    /// The tools that it may use, beside its sub-agents; `None` for whatever the node has.
    pub tools: Option<BTreeSet<ToolName>>,
    /// How much it may do.
    pub limits: Limits,
    /// How much people want to be asked.
    pub level: Level,
    /// Who works for it.
    pub sub_agents: Vec<AgentSpec>,
}

impl AgentSpec {
    /// An agent with the usual limits, every tool and no sub-agents.
    ///
    /// # Errors
    ///
    /// When the name could not be a tool's.
    pub fn new(name: &str, model: ModelName) -> Result<Self, NameError> {
        Ok(Self {
            name: ToolName::new(name)?,
            description: String::new(),
            model,
            instructions: None,
            tools: None,
            limits: Limits::default(),
            level: Level::default(),
            sub_agents: Vec::new(),
        })
    }

    /// Returns how its sessions behave.
    pub fn config(&self) -> Config {
        let sub_agents = self.sub_agents.iter().map(|agent| agent.name.clone());
        let allow = self.tools.clone().map(|tools| tools.into_iter().chain(sub_agents).collect());
        Config {
            agent: Some(Agent {
                id: self.name.to_string(),
                version: 1,
                model: self.model.to_string(),
                instructions: self.instructions.clone(),
                environment: None,
            }),
            exposure: Exposure { allow, ..Exposure::default() },
            level: self.level,
            limits: self.limits.clone(),
            ..Config::default()
        }
    }

    /// Returns the tools by which work is given to its sub-agents, and to theirs. A node that
    /// runs the agent registers them.
    pub fn delegation_tools(&self) -> Vec<Arc<dyn Tool>> {
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for agent in &self.sub_agents {
            tools.push(Arc::new(DelegationTool { agent: agent.clone() }));
            tools.extend(agent.delegation_tools());
        }
        tools
    }
}

/// Gives a task to a sub-agent, whose last word is the result.
#[derive(Debug)]
struct DelegationTool {
    agent: AgentSpec,
}

impl Tool for DelegationTool {
    fn definition(&self) -> Definition {
        let schema = json!({
            "type": "object",
            "properties": {"task": {
                "type": "string",
                "minLength": 1,
                "description": "What is to be done, with all that must be known for it.",
            }},
            "required": ["task"],
            "additionalProperties": false,
        });
        let schema = Schema::from_value(&schema)
            .unwrap_or_else(|error| unreachable!("a schema of our own is sound: {error}"));
        let AgentSpec { name, description, .. } = &self.agent;
        let description = format!(
            "Gives a task to the sub-agent `{name}`, which works in a session of its own with at \
             most your permissions. Its last words are the result. {description}"
        );
        let mut definition = Definition::new(name.clone(), description.trim_end(), schema);
        // Giving work away changes nothing by itself; what the sub-agent does is asked about
        // where it does it.
        definition.facets.mutates = Some(Mutates::None);
        definition.gate = Gate::Auto;
        definition.suspend_ttl = PATIENCE;
        definition
    }

    fn call(
        &self,
        _: ToolArguments,
        _: ToolContext,
    ) -> ToolFuture<'_, Result<Returned, ToolError>> {
        let message = "a sub-agent needs a session that can wait for it";
        Box::pin(async move { Err(ToolError::internal(message)) })
    }

    fn delegates(
        &self,
        arguments: &ToolArguments,
        _: &ToolContext,
    ) -> Result<Option<Delegated>, ToolError> {
        let task = arguments.get("task").and_then(Value::as_str).unwrap_or_default();
        let task = vec![ContentBlock::Text { text: task.to_owned() }];
        Ok(Some(Delegated::to(self.agent.config(), task)))
    }
}
