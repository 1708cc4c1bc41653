//! Putting a node together.

use std::sync::Arc;

use haft_core::ToolName;
use haft_core::tool::Definition;
use haft_store::{NodeId, Store};

use super::Haft;
use crate::clock::Clock;
use crate::driver::{Driver, Settings};
use crate::fresh::fresh_bits;
use crate::model::Model;
use crate::registry::{RegisterError, Registry, Selector};
use crate::tool::{Need, Services, Tool};
use crate::toolbox::{Middleware, Parts, Policy, SealingKey, Toolbox, Verifier};

/// Collects what a node is made of; [`HaftBuilder::start`] checks all of it at once.
#[derive(Default)]
#[must_use]
#[expect(missing_debug_implementations, reason = "it holds code of the application")]
pub struct HaftBuilder {
    registry: Registry,
    tools: Vec<Arc<dyn Tool>>,
    declared: Vec<Definition>,
    services: Services,
    secrets: Vec<String>,
    sealing_key: Option<SealingKey>,
    middleware: Vec<Arc<dyn Middleware>>,
    verifiers: Vec<Arc<dyn Verifier>>,
    policies: Vec<Arc<dyn Policy>>,
    selectors: Vec<Arc<dyn Selector>>,
    model: Option<Arc<dyn Model>>,
    settings: Option<Settings>,
}

/// Why a node cannot start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A tool is not taken.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// A tool's code takes a service that nobody gave.
    #[error("`{tool}` needs a `{service}`; give one with `.service(…)`")]
    NoService {
        /// The tool.
        tool: ToolName,
        /// The service's type.
        service: &'static str,
    },
    /// A tool has secret arguments, and there is no key to keep them under.
    #[error("`{tool}` has secret arguments; give a key to keep them under with `.sealing_key(…)`")]
    NoSealingKey {
        /// The tool.
        tool: ToolName,
    },
    /// There is no fresh name for this node.
    #[error("no fresh name for this node: {message}; give one with `.settings(…)`")]
    NoNodeName {
        /// Why.
        message: String,
    },
    /// A tool's undo is no registered tool.
    #[error("`{tool}` is taken back by `{undo}`, which is not registered")]
    NoUndo {
        /// The tool.
        tool: ToolName,
        /// What should take it back.
        undo: ToolName,
    },
}

impl HaftBuilder {
    /// Adds a tool.
    pub fn tool(mut self, tool: impl Tool) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Adds tools that are shared already, such as those of a value.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Adds a tool that someone else runs: a person, a client, the model's provider.
    pub fn declare(mut self, definition: Definition) -> Self {
        self.declared.push(definition);
        self
    }

    /// Hands something to the tools, by its type.
    pub fn service<T: Send + Sync + 'static>(mut self, service: T) -> Self {
        self.services.insert(service);
        self
    }

    /// Names a secret that must never be recorded or shown, whoever says it.
    pub fn secret(mut self, secret: impl Into<String>) -> Self {
        self.secrets.push(secret.into());
        self
    }

    /// Gives the key under which secret arguments are kept.
    pub fn sealing_key(mut self, key: SealingKey) -> Self {
        self.sealing_key = Some(key);
        self
    }

    /// Puts something around every call; the first added is the outermost.
    pub fn middleware(mut self, middleware: impl Middleware) -> Self {
        self.middleware.push(Arc::new(middleware));
        self
    }

    /// Has results judged before the model reads them.
    pub fn verifier(mut self, verifier: impl Verifier) -> Self {
        self.verifiers.push(Arc::new(verifier));
        self
    }

    /// Adds a source of permission.
    pub fn policy(mut self, policy: impl Policy) -> Self {
        self.policies.push(Arc::new(policy));
        self
    }

    /// Adds something that narrows what a turn is offered.
    pub fn selector(mut self, selector: impl Selector + 'static) -> Self {
        self.selectors.push(Arc::new(selector));
        self
    }

    /// Gives the model that drives sessions.
    pub fn model(mut self, model: impl Model) -> Self {
        self.model = Some(Arc::new(model));
        self
    }

    /// Says how the node runs.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = Some(settings);
        self
    }

    /// Starts the node over a store.
    ///
    /// # Errors
    ///
    /// When a tool is not taken, or something it needs is missing.
    pub fn start(self, store: Store) -> Result<Haft, BuildError> {
        let services = self.services.clone();
        for tool in self.tools {
            let needs = tool.needs();
            let registered = self.registry.register_arc(tool)?;
            require(registered.name(), &needs, &services)?;
        }
        for definition in self.declared {
            self.registry.declare(definition)?;
        }
        require_whole(&self.registry, self.sealing_key.as_ref())?;
        let settings = match self.settings {
            Some(settings) => settings,
            None => Settings::new(fresh_node()?),
        };
        let toolbox = Arc::new(Toolbox::new(Parts {
            registry: self.registry,
            store: Some(store.clone()),
            clock: settings.clock.clone(),
            live: settings.live.clone(),
            services,
            secrets: self.secrets,
            sealing_key: self.sealing_key,
            middleware: self.middleware,
            verifiers: self.verifiers,
            policies: self.policies,
            selectors: self.selectors,
            model: self.model,
        }));
        let driver = Driver::start(store, Arc::clone(&toolbox), &settings);
        Ok(Haft { driver, toolbox })
    }
}

/// A process that is started again is another node: what ran in the first one is gone.
fn fresh_node() -> Result<NodeId, BuildError> {
    let unnamed = |message: String| BuildError::NoNodeName { message };
    let bits = fresh_bits(Clock::System.now()).map_err(|error| unnamed(error.to_string()))?;
    NodeId::new(&format!("node-{bits:032x}")).map_err(|error| unnamed(error.to_string()))
}

fn require(tool: &ToolName, needs: &[Need], services: &Services) -> Result<(), BuildError> {
    match needs.iter().find(|need| !services.has(need)) {
        Some(missing) => Err(BuildError::NoService { tool: tool.clone(), service: missing.name() }),
        None => Ok(()),
    }
}

/// What only shows once everything is registered.
fn require_whole(registry: &Registry, key: Option<&SealingKey>) -> Result<(), BuildError> {
    for registered in registry.tools() {
        let (spec, tool) = (registered.spec(), registered.name().clone());
        if !spec.redaction.secret.is_empty() && key.is_none() {
            return Err(BuildError::NoSealingKey { tool });
        }
        if let Some(undo) = &spec.undo
            && registry.get(undo.tool.as_str()).is_none()
        {
            return Err(BuildError::NoUndo { tool, undo: undo.tool.clone() });
        }
    }
    Ok(())
}
