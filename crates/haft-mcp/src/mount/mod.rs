//! Haft as an MCP client: the tools of other servers, under Haft's permissions.
//!
//! A mounted server's tools are registered like any other: owned by `mcp`, so they ask unless
//! someone says otherwise; what they return is untrusted and bounded; a call whose connection
//! broke is not made again. What a server says its tools are is pinned: what it changes, and what
//! it adds, waits until a person has accepted it. What was accepted is registered before the node
//! starts, so that a call that waits over a restart finds its tool.

mod authorizing;
mod carrier;
mod declared;
mod desk;
mod error;
mod event_size;
mod kept;
mod lines;
mod link;
mod links;
mod oauth;
mod offer;
mod pins;
mod program;
mod sessions;
mod setting;
mod streamable;
mod tool;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use haft_core::{Actor, Digest, Millis, ToolName};
use haft_http::Reach;
use haft_runtime::registry::{Finding, RegisterError, Registry, lint_definition};
use haft_runtime::{Clock, supervise};
use haft_store::{Store, Tenant};
use serde_json::Value;
use tokio::sync::watch;

use crate::questions::Questions;
use desk::Desk;
use kept::Kept;
use link::{Admission, Bounds, Link};
use links::Links;
use oauth::{Authorizations, Safe};
use offer::TOOL_BYTES_MAX;
use pins::Pins;
use sessions::Sessions;
use tool::MountedTool;

pub use declared::{Confinement, Declared, DeclaredError, Networking, SandboxRoot};
pub use error::MountError;
pub use link::{Health, Peer};
pub use oauth::{Grant, OAuth};
pub use pins::Change;
pub use setting::{
    Credential, CredentialFuture, RenewalFuture, SecretFuture, Secrets, Setting, SettingError,
    VaultEntry,
};

/// How long to wait before a server that could not be asked is asked again, at least.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// A server to mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountConfig {
    /// What it is called; its tools' names begin with it.
    pub name: ToolName,
    /// Where it is.
    pub peer: Peer,
    /// How long one call may take.
    pub timeout: Millis,
    /// How long connecting may take, which includes that a program starts: the first run of a
    /// package runner or a container downloads what it runs.
    pub connect_timeout: Duration,
    /// The most that a result puts before the model.
    pub max_result_bytes: u64,
    /// The largest message that is read from it; an answer beyond that fails its call.
    pub max_message_bytes: usize,
    /// How many of its calls are sent at once, at most; the others wait in Haft.
    pub max_concurrent: u32,
    /// The same for single tools, by the names that the server gives them.
    pub tool_limits: BTreeMap<String, u32>,
    /// Which addresses a server on the network may be at.
    pub reach: Reach,
    /// What a program may reach; without it, it runs with the rights of this process.
    pub confinement: Option<Confinement>,
    /// The tools whose results are not held against their own `outputSchema`, by the names that
    /// the server gives them.
    pub unchecked_output: BTreeSet<String>,
    /// How many tools it may offer; a server that offers more has none of them.
    pub max_tools: u32,
}

/// How many calls of a server are sent at once unless its mount says otherwise.
const MAX_CONCURRENT: u32 = 16;
/// How many tools a server may offer unless its mount says otherwise.
const MAX_TOOLS: u32 = 1_000;
/// How long connecting may take unless the mount says otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(180);
/// The largest message unless the mount says otherwise.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

impl MountConfig {
    /// A server, with the usual limits.
    pub fn new(name: ToolName, peer: Peer) -> Self {
        Self {
            name,
            peer,
            timeout: Millis::from_secs(60),
            connect_timeout: CONNECT_TIMEOUT,
            max_result_bytes: 64 << 10,
            max_message_bytes: MAX_MESSAGE_BYTES,
            max_concurrent: MAX_CONCURRENT,
            tool_limits: BTreeMap::new(),
            reach: Reach::Anywhere,
            confinement: None,
            unchecked_output: BTreeSet::new(),
            max_tools: MAX_TOOLS,
        }
    }

    fn bounds(&self) -> Bounds {
        Bounds {
            connect_timeout: self.connect_timeout,
            message_bytes_max: self.max_message_bytes,
            calls_max: self.max_concurrent as usize,
            reach: self.reach,
            tools_max: self.max_tools as usize,
        }
    }
}

/// What a mount has come to.
#[derive(Debug, Clone, Default)]
pub struct MountReport {
    /// The tools that can be called, by the names that the server gives them.
    pub tools: BTreeMap<String, ToolName>,
    /// What waits to be accepted.
    pub pending: Vec<Change>,
    /// What cannot be a tool here, and why.
    pub refused: BTreeMap<String, String>,
    /// What the linter says about the tools' definitions.
    pub findings: Vec<Finding>,
}

/// Who said that a server is to be mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Whoever configured the node.
    Configured,
    /// Somebody while it ran, which is kept in the store.
    Added,
}

/// What is done with servers that somebody added and that are commands of this host: they run
/// with this process's rights, outside of any sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AddedCommands {
    /// Only whoever configures the node has commands run.
    #[default]
    Refused,
    /// Every admin may.
    Allowed,
}

/// Returns the words of a command that runs whatever is written after them in a sandbox.
pub type Confine = dyn Fn(&Confinement) -> Vec<String> + Send + Sync;

/// What a node keeps to when it mounts servers.
#[derive(Clone)]
pub struct MountRules {
    /// Which addresses a server may be at that somebody added while the node ran.
    pub added_reach: Reach,
    /// How programs are confined; without it, one that is to be confined is not mounted.
    pub confine: Option<Arc<Confine>>,
}

impl Default for MountRules {
    fn default() -> Self {
        Self { added_reach: Reach::Anywhere, confine: None }
    }
}

impl std::fmt::Debug for MountRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MountRules").field("added_reach", &self.added_reach).finish_non_exhaustive()
    }
}

/// A mounted server, as it stands.
#[derive(Debug, Clone)]
pub struct Mounted {
    /// How it is mounted.
    pub config: MountConfig,
    /// Who wanted it.
    pub origin: Origin,
    /// How it is.
    pub health: Health,
    /// What it has come to.
    pub report: MountReport,
}

/// The mounted servers of a node; a clone shares them.
#[derive(Clone)]
pub struct Mounts(Arc<Shared>);

struct Shared {
    registry: Registry,
    questions: Questions,
    secrets: Secrets,
    sessions: Sessions,
    pins: Pins,
    kept: Kept,
    /// Where tokens are kept.
    safe: Safe,
    authorizations: Authorizations,
    rules: MountRules,
    mounted: Mutex<BTreeMap<ToolName, Arc<Mount>>>,
}

struct Mount {
    config: MountConfig,
    origin: Origin,
    links: Arc<Links>,
    report: Mutex<MountReport>,
    /// Held while it is asked what it offers: the later answer is the one that stays.
    stocktaking: tokio::sync::Mutex<()>,
}

#[haft_macros::boxed]
impl Mounts {
    /// Starts without servers. They, their pins and their secrets belong to the tenant, and only
    /// its sessions may call them.
    pub fn new(
        registry: Registry,
        store: Store,
        questions: Questions,
        secrets: Secrets,
        tenant: Tenant,
    ) -> Self {
        Self::with_rules(registry, store, questions, secrets, tenant, MountRules::default())
    }

    /// The same, for a node that keeps to rules.
    pub fn with_rules(
        registry: Registry,
        store: Store,
        questions: Questions,
        secrets: Secrets,
        tenant: Tenant,
        rules: MountRules,
    ) -> Self {
        let safe = Safe { store: store.clone(), tenant: tenant.clone(), key: secrets.key() };
        Self(Arc::new(Shared {
            registry,
            questions,
            secrets,
            authorizations: Authorizations::new(safe.clone()),
            safe,
            sessions: Sessions::of(store.clone(), tenant.clone()),
            pins: Pins::new(store.clone(), tenant.clone()),
            kept: Kept { store, tenant },
            rules,
            mounted: Mutex::default(),
        }))
    }

    /// Returns whose servers they are.
    pub fn tenant(&self) -> &Tenant {
        &self.0.kept.tenant
    }

    /// Mounts the servers that the node is configured with and those that were added while it ran
    /// before. What was accepted of them can be called at once; they are connected in their own
    /// time, and again and again while they cannot be reached.
    ///
    /// # Errors
    ///
    /// When two have one name, or the store has trouble.
    pub async fn restore(
        &self,
        configured: Vec<MountConfig>,
        commands: AddedCommands,
    ) -> Result<(), MountError> {
        for config in configured {
            self.restore_one(config, Origin::Configured).await?;
        }
        for (name, declared) in self.0.kept.all().await? {
            // Whoever configures the node has the last word about a name.
            if self.lock().contains_key(&name) {
                tracing::warn!(%name, "an added server has the name of a configured one");
                continue;
            }
            // A store may come from anywhere, and must not run what it likes.
            if !declared.command.is_empty() && commands == AddedCommands::Refused {
                tracing::warn!(%name, "an added server is a command, which is not allowed here");
                continue;
            }
            let config = self.added(name, &declared)?;
            self.restore_one(config, Origin::Added).await?;
        }
        Ok(())
    }

    /// Makes these the configured servers: those that are no longer among them are unmounted. What
    /// was added while the node ran stays.
    ///
    /// # Errors
    ///
    /// When the store has trouble.
    pub async fn reconfigure(&self, configured: Vec<MountConfig>) -> Result<(), MountError> {
        let before = self.list().into_iter().filter(|mounted| mounted.origin == Origin::Configured);
        for gone in before.filter(|mounted| !configured.contains(&mounted.config)) {
            self.unmount(&gone.config.name).await?;
        }
        for config in configured {
            if !self.lock().contains_key(&config.name) {
                self.restore_one(config, Origin::Configured).await?;
            }
        }
        Ok(())
    }

    async fn restore_one(&self, config: MountConfig, origin: Origin) -> Result<(), MountError> {
        let name = config.name.clone();
        let mount = self.prepared(config, origin)?;
        if let Some(accepted) = self.0.pins.accepted(&name).await? {
            self.register_all(&mount, accepted, Vec::new());
        }
        self.lock().insert(name.clone(), mount);
        self.follow(name, First::AskNow);
        Ok(())
    }

    /// Mounts a server. The first time, what it offers is pinned on behalf of whoever mounts it;
    /// later, what differs from that waits to be accepted.
    ///
    /// # Errors
    ///
    /// When it cannot be reached, or the name is taken.
    pub async fn mount(&self, config: MountConfig, by: &Actor) -> Result<MountReport, MountError> {
        self.mount_as(config, Origin::Configured, by).await
    }

    /// Mounts a server and keeps it for the node's next start.
    ///
    /// # Errors
    ///
    /// As [`Mounts::mount`], or when it makes no sense.
    pub async fn add(
        &self,
        name: ToolName,
        declared: &Declared,
        by: &Actor,
    ) -> Result<MountReport, MountError> {
        let config = self.added(name.clone(), declared)?;
        let report = self.mount_as(config, Origin::Added, by).await?;
        self.0.kept.put(&name, Some(declared), by, Clock::System.now()).await?;
        Ok(report)
    }

    fn added(&self, name: ToolName, declared: &Declared) -> Result<MountConfig, MountError> {
        let config = declared.config(name)?;
        Ok(MountConfig { reach: self.0.rules.added_reach, ..config })
    }

    async fn mount_as(
        &self,
        config: MountConfig,
        origin: Origin,
        by: &Actor,
    ) -> Result<MountReport, MountError> {
        let name = config.name.clone();
        let mount = self.prepared(config, origin)?;
        let (report, first) = match self.take_stock(&mount, by).await {
            // Who may authorize it is told that it is there; they may come back to another node.
            Err(_) if matches!(mount.links.own().health(), Health::Unauthorized { .. }) => {
                (mount.report(), First::AskNow)
            }
            taken => (taken?, First::AskLater),
        };
        self.lock().insert(name.clone(), mount);
        self.follow(name, first);
        Ok(report)
    }

    fn prepared(&self, config: MountConfig, origin: Origin) -> Result<Arc<Mount>, MountError> {
        if self.lock().contains_key(&config.name) {
            return Err(MountError::Taken { name: config.name });
        }
        let desk = Arc::new(Desk::new(self.0.questions.clone()));
        let authorizer = self.authorizer(&config, &desk);
        let (peer, secrets) = (self.confined(&config)?, self.0.secrets.clone());
        let admission = Admission::Own(authorizer.map(Box::new));
        let own = Link::new(peer, config.bounds(), desk, secrets.clone(), admission);
        let links = Links::new(own, &config, secrets, self.0.questions.clone());
        let (report, stocktaking) = (Mutex::default(), tokio::sync::Mutex::default());
        Ok(Arc::new(Mount { config, origin, links: Arc::new(links), report, stocktaking }))
    }

    /// Returns how a server is started: a program that is to be confined, by what confines it.
    fn confined(&self, config: &MountConfig) -> Result<Peer, MountError> {
        let (Peer::Command { program, args, env }, Some(confinement)) =
            (&config.peer, &config.confinement)
        else {
            return Ok(config.peer.clone());
        };
        let unconfined = || MountError::Unreachable {
            name: config.name.clone(),
            message: "it is to run in a sandbox, and this node has none for it".to_owned(),
        };
        let confine = self.0.rules.confine.as_ref().ok_or_else(unconfined)?;
        let words = confine(confinement).into_iter().chain([program.clone()]);
        let mut words = words.chain(args.iter().cloned());
        let program = words.next().ok_or_else(unconfined)?;
        Ok(Peer::Command { program, args: words.collect(), env: env.clone() })
    }

    /// Takes a server's tools away and ends the connection.
    ///
    /// # Errors
    ///
    /// When there is no such mount.
    pub async fn unmount(&self, name: &ToolName) -> Result<(), MountError> {
        let mount = self.lock().remove(name);
        let mount = mount.ok_or_else(|| MountError::Unknown { name: name.clone() })?;
        for tool in mount.report().tools.values() {
            self.0.registry.remove(tool.as_str());
        }
        mount.links.close().await;
        Ok(())
    }

    /// Unmounts a server that was added while the node ran, and forgets it. What was accepted of
    /// it is remembered, for the day that something of its name is mounted again.
    ///
    /// # Errors
    ///
    /// When there is no such mount, or the node is configured with it.
    pub async fn remove(&self, name: &ToolName, by: &Actor) -> Result<(), MountError> {
        if self.get(name)?.origin == Origin::Configured {
            return Err(MountError::Configured { name: name.clone() });
        }
        self.0.kept.put(name, None, by, Clock::System.now()).await?;
        self.unmount(name).await
    }

    /// Returns the mounted servers as they stand.
    pub fn list(&self) -> Vec<Mounted> {
        self.lock().values().map(|mount| mount.shown()).collect()
    }

    /// Returns a mounted server as it stands.
    ///
    /// # Errors
    ///
    /// When there is no such mount.
    pub fn find(&self, name: &ToolName) -> Result<Mounted, MountError> {
        Ok(self.get(name)?.shown())
    }

    /// Asks a server anew what it offers.
    ///
    /// # Errors
    ///
    /// When there is no such mount, or it cannot be reached.
    pub async fn look_again(&self, name: &ToolName) -> Result<MountReport, MountError> {
        let mount = self.get(name)?;
        self.take_stock(&mount, &Actor::system()).await
    }

    /// Accepts a tool as its server offers it now.
    ///
    /// # Errors
    ///
    /// When it offers something else by now.
    pub async fn accept(
        &self,
        name: &ToolName,
        tool: &str,
        digest: Digest,
        by: &Actor,
    ) -> Result<MountReport, MountError> {
        let mount = self.get(name)?;
        let waits = mount.report().pending.into_iter().find(|change| change.tool == tool);
        let Some(change) = waits.filter(|change| change.digest == digest) else {
            let (name, tool) = (name.clone(), tool.to_owned());
            return Err(MountError::OtherOffer { name, tool, digest });
        };
        self.0.pins.accept(name, &change, by, Clock::System.now()).await?;
        self.take_stock(&mount, by).await
    }

    /// Asks a server anew what it offers, and registers what is pinned of it.
    async fn take_stock(&self, mount: &Mount, by: &Actor) -> Result<MountReport, MountError> {
        let _turn = mount.stocktaking.lock().await;
        let name = &mount.config.name;
        let unreachable = |message: String| MountError::Unreachable { name: name.clone(), message };
        let offered = mount.links.own().tools().await.map_err(unreachable)?;
        let sorted = self.0.pins.sort(name, offered, by, Clock::System.now()).await?;
        Ok(self.register_all(mount, sorted.pinned, sorted.pending))
    }

    fn register_all(&self, mount: &Mount, pinned: Vec<Value>, pending: Vec<Change>) -> MountReport {
        let mut report = MountReport { pending, ..MountReport::default() };
        let alike = alike(&pinned);
        for body in pinned {
            let wire_name = body["name"].as_str().unwrap_or_default().to_owned();
            if alike.contains(&wire_name.to_lowercase()) {
                let why = "the server has another tool whose name differs by case only, and the \
                           two would be confused";
                report.refused.insert(wire_name, why.to_owned());
                continue;
            }
            match self.register(mount, body, &mut report.findings) {
                Ok(tool) => drop(report.tools.insert(wire_name, tool)),
                Err(message) => drop(report.refused.insert(wire_name, message)),
            }
        }
        let stays = |tool: &ToolName| report.tools.values().any(|known| known == tool);
        for gone in mount.report().tools.values().filter(|tool| !stays(tool)) {
            self.0.registry.remove(gone.as_str());
        }
        *mount.report.lock().unwrap_or_else(PoisonError::into_inner) = report.clone();
        report
    }

    fn register(
        &self,
        mount: &Mount,
        body: Value,
        findings: &mut Vec<Finding>,
    ) -> Result<ToolName, String> {
        let n_bytes = body.to_string().len();
        if n_bytes > TOOL_BYTES_MAX {
            return Err(format!(
                "expected a definition of at most {TOOL_BYTES_MAX} bytes, found {n_bytes}"
            ));
        }
        let (links, sessions) = (Arc::clone(&mount.links), self.0.sessions.clone());
        let tool = MountedTool::new(&mount.config, links, sessions, body)?;
        let definition = tool.described();
        findings.extend(lint_definition(definition));
        let name = definition.name.clone();
        let registry = &self.0.registry;
        let is_ours = mount.report().tools.values().any(|known| *known == name);
        let registered = match is_ours && registry.get(name.as_str()).is_some() {
            true => registry.replace(tool).map(drop),
            false => registry.register(tool).map(drop),
        };
        registered.map_err(|error: RegisterError| error.to_string())?;
        Ok(name)
    }

    /// Takes stock whenever the server may offer something else, until it is unmounted, whatever
    /// panics meanwhile.
    fn follow(&self, name: ToolName, first: First) {
        let Ok(mount) = self.get(&name) else { return };
        let changes = mount.links.own().desk().changes();
        let (shared, store) = (Arc::downgrade(&self.0), self.0.kept.store.clone());
        drop(mount);
        let follow =
            move || Self::take_stock_again(shared.clone(), name.clone(), changes.clone(), first);
        drop(tokio::spawn(supervise(store, "mounted servers", follow)));
    }

    async fn take_stock_again(
        shared: Weak<Shared>,
        name: ToolName,
        mut changes: watch::Receiver<u64>,
        first: First,
    ) {
        let mut is_due = first == First::AskNow;
        loop {
            if !is_due && changes.changed().await.is_err() {
                return;
            }
            let Some(shared) = shared.upgrade() else { return };
            let mounts = Self(shared);
            let Ok(mount) = mounts.get(&name) else { return };
            let taken = mounts.take_stock(&mount, &Actor::system()).await;
            is_due = taken.is_err();
            if let Err(error) = taken {
                tracing::warn!(%error, "a mounted server's tools could not be listed");
                let link = Arc::clone(mount.links.own());
                drop((mounts, mount));
                link.rested(ASK_AGAIN).await;
            }
        }
    }

    fn get(&self, name: &ToolName) -> Result<Arc<Mount>, MountError> {
        let unknown = || MountError::Unknown { name: name.clone() };
        self.lock().get(name).cloned().ok_or_else(unknown)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ToolName, Arc<Mount>>> {
        self.0.mounted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The names, in lower case, that more than one of a server's tools has.
fn alike(bodies: &[Value]) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let names = bodies.iter().filter_map(|body| body["name"].as_str()).map(str::to_lowercase);
    names.filter(|name| !seen.insert(name.clone())).collect()
}

/// When a server that has just been mounted is first asked what it offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    AskNow,
    AskLater,
}

impl Mount {
    fn report(&self) -> MountReport {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn shown(&self) -> Mounted {
        let (config, origin) = (self.config.clone(), self.origin);
        Mounted { config, origin, health: self.links.own().health(), report: self.report() }
    }
}

impl std::fmt::Debug for Mounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<ToolName> = self.lock().keys().cloned().collect();
        f.debug_struct("Mounts").field("names", &names).finish_non_exhaustive()
    }
}
