//! The model behind all sessions: whichever one a session's agent names.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use haft_agent::provider::ProviderConfig;
use haft_agent::{ModelConfig, ModelName, ProviderModel, Script, ScriptedModel, Vendor};
use haft_core::session::Agent;
use haft_core::{ErrorClass, Failure};
use haft_runtime::{Model, ModelAnswer, ModelError, ModelRequest, ToolFuture};

use crate::demo;

/// How many models are kept ready; each holds a connection and what it is told.
const KEPT_MAX: usize = 256;

/// Where models are found.
#[derive(Debug, Clone, Default)]
pub struct ModelSettings {
    /// Those of `openai/…`.
    pub openai: Option<ProviderConfig>,
    /// Those of `anthropic/…`.
    pub anthropic: Option<ProviderConfig>,
    /// Those of `scripted/…`, by name.
    pub scripts: BTreeMap<String, Script>,
}

/// The model behind all sessions.
#[derive(Clone)]
pub struct Models(Arc<Inner>);

struct Inner {
    settings: ModelSettings,
    ready: Mutex<HashMap<Told, Arc<dyn Model>>>,
}

/// A model and what it is told: what differs between two agents' models.
type Told = (String, Option<String>);

impl Models {
    /// Models that are found as configured.
    pub fn new(mut settings: ModelSettings) -> Self {
        if let Ok(script) = demo::script() {
            settings.scripts.entry(demo::SCRIPT.to_owned()).or_insert(script);
        }
        Self(Arc::new(Inner { settings, ready: Mutex::default() }))
    }

    fn of(&self, agent: &Agent) -> Result<Arc<dyn Model>, Failure> {
        let told = (agent.model.clone(), agent.instructions.clone());
        let ready = || self.0.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = ready().get(&told) {
            return Ok(Arc::clone(model));
        }
        let model = self.made(agent)?;
        let mut ready = ready();
        if ready.len() >= KEPT_MAX {
            ready.clear();
        }
        ready.insert(told, Arc::clone(&model));
        Ok(model)
    }

    fn made(&self, agent: &Agent) -> Result<Arc<dyn Model>, Failure> {
        let failed = |message: String| Failure::new(ErrorClass::Auth, message);
        let name: ModelName = agent.model.parse().map_err(|error| failed(format!("{error}")))?;
        let settings = &self.0.settings;
        let provider = match name.vendor {
            Vendor::Scripted => {
                let script = settings.scripts.get(&name.name).cloned();
                let script = script.ok_or_else(|| failed(format!("no script `{}`", name.name)))?;
                return Ok(Arc::new(ScriptedModel::new(script)));
            }
            Vendor::OpenAi => (settings.openai.clone(), "OPENAI_API_KEY or OPENAI_BASE_URL"),
            Vendor::Anthropic => {
                (settings.anthropic.clone(), "ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL")
            }
        };
        let (Some(provider), _) = provider else {
            let message = format!("`{name}` cannot be reached: start Haft with {}", provider.1);
            return Err(failed(message));
        };
        let mut config = ModelConfig::new(provider, name.name);
        config.instructions.clone_from(&agent.instructions);
        let model = ProviderModel::new(config).map_err(|error| failed(error.to_string()))?;
        Ok(Arc::new(model))
    }
}

impl Model for Models {
    fn answer(&self, request: ModelRequest) -> ToolFuture<'_, Result<ModelAnswer, ModelError>> {
        Box::pin(async move {
            let Some(agent) = &request.open.config.agent else {
                let message = "this session runs no agent, so there is no model to ask";
                return Err(Failure::new(ErrorClass::Internal, message).into());
            };
            self.of(agent)?.answer(request).await
        })
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Models").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}
