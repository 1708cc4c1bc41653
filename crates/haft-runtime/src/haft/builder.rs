//! Putting a node together.

use std::sync::Arc;

use haft_core::permission::Floor;
use haft_core::session::Config;
use haft_core::tool::Definition;
use haft_core::{Actor, SessionId, ToolName};
use haft_store::{NodeId, Store};

use super::{Direct, Haft};
use crate::clock::Clock;
use crate::driver::{Driver, Settings};
use crate::fresh::fresh_bits;
use crate::live::{Live, LiveStream};
use crate::model::{Adviser, Model};
use crate::registry::{RegisterError, Registered, Registry, Selector};
use crate::request::Requests;
use crate::supervision::supervise;
use crate::tool::{Need, Services, Tool};
#[cfg(feature = "policy-file")]
use crate::toolbox::PolicyFile;
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
    floor: Floor,
    selectors: Vec<Arc<dyn Selector>>,
    advisers: Vec<Arc<dyn Adviser>>,
    model: Option<Arc<dyn Model>>,
    settings: Option<Settings>,
    clock: Option<Clock>,
    listeners: Vec<Listener>,
}

/// Whoever hears what happens on the node.
type Listener = Box<dyn Fn(&Live) + Send + Sync>;

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

    /// Has something called with whatever happens on the node, for as long as it runs. It must be
    /// quick and not wait.
    pub fn listener(mut self, told: impl Fn(&Live) + Send + Sync + 'static) -> Self {
        self.listeners.push(Box::new(told));
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

    /// Returns the registry that the tools go into when the node starts.
    pub fn registry(&self) -> Registry {
        self.registry.clone()
    }

    /// Registers the tools so far, so that nothing that is registered before the node starts can
    /// take their names.
    ///
    /// # Errors
    ///
    /// When a tool is not taken, or needs a service that was not given yet.
    pub fn registered(mut self) -> Result<Self, BuildError> {
        self.register()?;
        Ok(self)
    }

    fn register(&mut self) -> Result<(), BuildError> {
        for tool in std::mem::take(&mut self.tools) {
            let needs = tool.needs();
            let registered = self.registry.register_arc(tool)?;
            require(registered.name(), &needs, &self.services)?;
        }
        for definition in std::mem::take(&mut self.declared) {
            self.registry.declare(definition)?;
        }
        Ok(())
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

    /// Sets the least that becomes of calls, whatever the policies of agents allow.
    pub fn floor(mut self, floor: Floor) -> Self {
        self.floor = floor;
        self
    }

    /// Adds the rules of a file, each a source of its own.
    #[cfg(feature = "policy-file")]
    pub fn policy_file(mut self, file: PolicyFile) -> Self {
        let rules = file.into_rules().into_iter().map(|rule| Arc::new(rule) as Arc<dyn Policy>);
        self.policies.extend(rules);
        self
    }

    /// Adds something that narrows what a turn is offered.
    pub fn selector(mut self, selector: impl Selector + 'static) -> Self {
        self.selectors.push(Arc::new(selector));
        self
    }

    /// Adds something that tells models what follows from what is recorded.
    pub fn adviser(mut self, adviser: impl Adviser) -> Self {
        self.advisers.push(Arc::new(adviser));
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

    /// Says what time it is, whatever the settings say.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Starts the node over a store.
    ///
    /// # Errors
    ///
    /// When a tool is not taken, or something it needs is missing.
    pub fn start(mut self, store: Store) -> Result<Haft, BuildError> {
        let mut settings = match self.settings.take() {
            Some(settings) => settings,
            None => Settings::new(fresh_node()?),
        };
        if let Some(clock) = self.clock.take() {
            settings.clock = clock;
        }
        let live = settings.live.clone();
        let toolbox = Arc::new(self.toolbox(Some(store.clone()), settings.clock.clone(), live)?);
        let requests = Requests::new(store.clone(), settings.clock.clone());
        let driver = Driver::start(store, Arc::clone(&toolbox), &settings);
        let haft = Haft { driver, toolbox, requests };
        let settling = haft.without_hold();
        let settle = move || settling.clone().settle_for_ever();
        tokio::spawn(supervise(haft.store().clone(), "settling", settle));
        Ok(haft)
    }

    /// Makes calls possible without a store, all on behalf of one actor: what would have to wait
    /// for someone is refused.
    ///
    /// # Errors
    ///
    /// As [`HaftBuilder::start`].
    pub fn direct(self, config: Config, actor: Actor) -> Result<Direct, BuildError> {
        let unnamed =
            |error: getrandom::Error| BuildError::NoNodeName { message: error.to_string() };
        let session = SessionId::from_bits(fresh_bits(Clock::System.now()).map_err(unnamed)?);
        let toolbox = self.toolbox(None, Clock::System, LiveStream::new())?;
        Ok(Direct::new(toolbox, config, actor, session))
    }

    fn toolbox(
        mut self,
        store: Option<Store>,
        clock: Clock,
        live: LiveStream,
    ) -> Result<Toolbox, BuildError> {
        self.register()?;
        let taps = self.listeners.into_iter().map(|told| live.tap(told)).collect();
        if store.is_some() {
            require_sealing(&self.registry, self.sealing_key.as_ref())?;
        }
        require_undo(&self.registry)?;
        Ok(Toolbox::new(Parts {
            registry: self.registry,
            store,
            clock,
            live,
            services: self.services,
            secrets: self.secrets,
            sealing_key: self.sealing_key,
            middleware: self.middleware,
            verifiers: self.verifiers,
            policies: self.policies,
            floor: self.floor,
            selectors: self.selectors,
            advisers: self.advisers,
            model: self.model,
            taps,
        }))
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

/// What waits for a week is kept in the store, and secrets are not kept there in the clear.
fn require_sealing(registry: &Registry, key: Option<&SealingKey>) -> Result<(), BuildError> {
    let secret = |tool: &Arc<Registered>| !tool.spec().redaction.secret.is_empty();
    match registry.tools().into_iter().find(secret).filter(|_| key.is_none()) {
        Some(tool) => Err(BuildError::NoSealingKey { tool: tool.name().clone() }),
        None => Ok(()),
    }
}

fn require_undo(registry: &Registry) -> Result<(), BuildError> {
    for registered in registry.tools() {
        let undo = registered.spec().undo.as_ref().map(|undo| &undo.tool);
        if let Some(undo) = undo.filter(|undo| registry.get(undo.as_str()).is_none()) {
            return Err(BuildError::NoUndo { tool: registered.name().clone(), undo: undo.clone() });
        }
    }
    Ok(())
}
