//! Haft as an MCP client: the tools of other servers, under Haft's permissions.
//!
//! A mounted server's tools are registered like any other: owned by `mcp`, so they ask unless
//! someone says otherwise; what they return is untrusted and bounded; a call whose connection
//! broke is not made again. What a server says its tools are is pinned: what it changes, and what
//! it adds, waits until a person has accepted it.

mod link;
mod pins;
mod tool;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haft_core::{Actor, Digest, Millis, ToolName};
use haft_runtime::Haft;
use haft_runtime::registry::{Finding, RegisterError, lint_definition};
use haft_store::Tenant;
use serde_json::Value;

use crate::questions::Questions;
use link::Link;
use pins::Pins;
use tool::MountedTool;

pub use link::{Health, Peer};
pub use pins::Change;

/// A server to mount.
#[derive(Debug, Clone)]
pub struct MountConfig {
    /// What it is called; its tools' names begin with it.
    pub name: ToolName,
    /// Where it is.
    pub peer: Peer,
    /// How long one call may take.
    pub timeout: Millis,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// The most that a result puts before the model.
    pub max_result_bytes: u64,
}

impl MountConfig {
    /// A server, with the usual limits.
    pub fn new(name: ToolName, peer: Peer) -> Self {
        Self {
            name,
            peer,
            timeout: Millis::from_secs(60),
            connect_timeout: Duration::from_secs(60),
            max_result_bytes: 64 << 10,
        }
    }
}

/// Why a server is not mounted, or its tools are not as asked.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// It could not be reached.
    #[error("`{name}` cannot be reached: {message}")]
    Unreachable {
        /// The mount.
        name: ToolName,
        /// Why.
        message: String,
    },
    /// Another one has the name.
    #[error("`{name}` is mounted already")]
    Taken {
        /// The mount.
        name: ToolName,
    },
    /// There is no such mount.
    #[error("`{name}` is not mounted")]
    Unknown {
        /// The mount.
        name: ToolName,
    },
    /// What was to be accepted is not what the server offers.
    #[error("`{tool}` of `{name}` does not wait to be accepted as {digest}: look at it again")]
    OtherOffer {
        /// The mount.
        name: ToolName,
        /// The tool, as the server calls it.
        tool: String,
        /// What was to be accepted.
        digest: Digest,
    },
    /// The store has trouble.
    #[error(transparent)]
    Store(#[from] haft_store::Error),
}

/// What a mount has come to.
#[derive(Debug, Clone, Default)]
pub struct MountReport {
    /// The tools that can be called.
    pub tools: Vec<ToolName>,
    /// What waits to be accepted.
    pub pending: Vec<Change>,
    /// What cannot be a tool here, and why.
    pub refused: BTreeMap<String, String>,
    /// What the linter says about the tools' definitions.
    pub findings: Vec<Finding>,
}

/// The mounted servers of a node; a clone shares them.
#[derive(Clone)]
pub struct Mounts(Arc<Shared>);

struct Shared {
    haft: Haft,
    questions: Questions,
    pins: Pins,
    mounted: Mutex<BTreeMap<ToolName, Arc<Mount>>>,
}

struct Mount {
    config: MountConfig,
    link: Arc<Link>,
    report: Mutex<MountReport>,
}

impl Mounts {
    /// Starts without servers. Pins belong to the tenant.
    pub fn new(haft: Haft, questions: Questions, tenant: Tenant) -> Self {
        let pins = Pins::new(haft.store().clone(), tenant);
        Self(Arc::new(Shared { haft, questions, pins, mounted: Mutex::default() }))
    }

    /// Mounts a server. The first time, what it offers is pinned on behalf of whoever mounts it;
    /// later, what differs from that waits to be accepted.
    ///
    /// # Errors
    ///
    /// When it cannot be reached, or the name is taken.
    pub async fn mount(&self, config: MountConfig, by: &Actor) -> Result<MountReport, MountError> {
        let name = config.name.clone();
        if self.lock().contains_key(&name) {
            return Err(MountError::Taken { name });
        }
        let link = Link::new(config.peer.clone(), config.connect_timeout, self.0.questions.clone());
        let report = Mutex::default();
        let mount = Arc::new(Mount { config, link: Arc::new(link), report });
        let report = self.take_stock(&mount, by).await?;
        self.lock().insert(name.clone(), Arc::clone(&mount));
        self.follow(name);
        Ok(report)
    }

    /// Takes a server's tools away and ends the connection.
    ///
    /// # Errors
    ///
    /// When there is no such mount.
    pub async fn unmount(&self, name: &ToolName) -> Result<(), MountError> {
        let mount = self.lock().remove(name);
        let mount = mount.ok_or_else(|| MountError::Unknown { name: name.clone() })?;
        for tool in mount.report().tools {
            self.0.haft.registry().remove(tool.as_str());
        }
        mount.link.close().await;
        Ok(())
    }

    /// Returns how each mounted server is.
    pub fn health(&self) -> BTreeMap<ToolName, Health> {
        self.lock().iter().map(|(name, mount)| (name.clone(), mount.link.health())).collect()
    }

    /// Returns what a mount has come to.
    ///
    /// # Errors
    ///
    /// When there is no such mount.
    pub fn report(&self, name: &ToolName) -> Result<MountReport, MountError> {
        Ok(self.get(name)?.report())
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
        self.0.pins.accept(name, &change, by, self.0.haft.now()).await?;
        self.take_stock(&mount, by).await
    }

    /// Asks a server anew what it offers, and registers what is pinned of it.
    async fn take_stock(&self, mount: &Mount, by: &Actor) -> Result<MountReport, MountError> {
        let name = &mount.config.name;
        let unreachable = |message: String| MountError::Unreachable { name: name.clone(), message };
        let offered = mount.link.tools().await.map_err(unreachable)?;
        let offered: Vec<Value> =
            offered.iter().filter_map(|tool| serde_json::to_value(tool).ok()).collect();
        let sorted = self.0.pins.sort(name, offered, by, self.0.haft.now()).await?;
        let mut report = MountReport { pending: sorted.pending, ..MountReport::default() };
        for body in sorted.pinned {
            let wire_name = body["name"].as_str().unwrap_or_default().to_owned();
            match self.register(mount, body, &mut report.findings) {
                Ok(tool) => report.tools.push(tool),
                Err(message) => drop(report.refused.insert(wire_name, message)),
            }
        }
        for gone in mount.report().tools.iter().filter(|tool| !report.tools.contains(tool)) {
            self.0.haft.registry().remove(gone.as_str());
        }
        *mount.report.lock().unwrap_or_else(PoisonError::into_inner) = report.clone();
        Ok(report)
    }

    fn register(
        &self,
        mount: &Mount,
        body: Value,
        findings: &mut Vec<Finding>,
    ) -> Result<ToolName, String> {
        let tool = MountedTool::new(&mount.config, Arc::clone(&mount.link), body)?;
        let definition = tool.described();
        findings.extend(lint_definition(definition));
        let name = definition.name.clone();
        let registry = self.0.haft.registry();
        let is_ours = mount.report().tools.contains(&name);
        let registered = match is_ours && registry.get(name.as_str()).is_some() {
            true => registry.replace(tool).map(drop),
            false => registry.register(tool).map(drop),
        };
        registered.map_err(|error: RegisterError| error.to_string())?;
        Ok(name)
    }

    /// Takes stock again whenever the server says that its tools changed.
    fn follow(&self, name: ToolName) {
        let Ok(mount) = self.get(&name) else { return };
        let mut changes = mount.link.changes();
        let shared = Arc::downgrade(&self.0);
        drop(mount);
        tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                let Some(shared) = shared.upgrade() else { return };
                let mounts = Self(shared);
                let Ok(mount) = mounts.get(&name) else { return };
                if let Err(error) = mounts.take_stock(&mount, &Actor::system()).await {
                    tracing::warn!(%error, "a mounted server's tools could not be listed");
                }
            }
        });
    }

    fn get(&self, name: &ToolName) -> Result<Arc<Mount>, MountError> {
        let unknown = || MountError::Unknown { name: name.clone() };
        self.lock().get(name).cloned().ok_or_else(unknown)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ToolName, Arc<Mount>>> {
        self.0.mounted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mount {
    fn report(&self) -> MountReport {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl std::fmt::Debug for Mounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mounts").field("health", &self.health()).finish_non_exhaustive()
    }
}
