//! What every request is answered from.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft_core::{Millis, SessionId, Timestamp};
use haft_mcp::{AddedCommands, Mounted, Mounts};
use haft_runtime::registry::Registry;
use haft_runtime::{Haft, fresh_bits};
use haft_store::{Request, Store, Tenant};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::feed::Feeds;
use crate::invitation::Invitation;
use crate::keys::Keys;
use crate::metrics::Metrics;
use crate::objects::Objects;
use crate::presence::Presence;
use crate::readiness::Readiness;
use crate::server::Config;
use crate::streams::Streams;
use crate::webhooks::WebhookSettings;
use crate::workers::Workers;

/// How long a call in the session of an agent waits when the operator did not say.
const AGENT_SUSPEND_TTL: Millis = Millis::from_secs(300);

/// The state of the server; a clone shares it.
#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

struct Inner {
    haft: Haft,
    keys: Keys,
    objects: Objects,
    feeds: Feeds,
    streams: Streams,
    mounts: Option<Mounts>,
    mcp_commands: AddedCommands,
    suspend_ttl: Option<Millis>,
    uploads: Option<PathBuf>,
    data: Option<PathBuf>,
    hosts: Hosts,
    origins: Vec<String>,
    pages: Pages,
    invitation: Invitation,
    presence: Presence,
    webhooks: WebhookSettings,
    workers: Workers,
    metrics: Metrics,
    readiness: Readiness,
    shutdown: CancellationToken,
}

/// Which names the server answers to: another one is a browser that was led here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hosts {
    /// Whatever it is called.
    Any,
    /// Names of this machine for itself, and these.
    Local(Vec<String>),
}

/// How the server's own pages can have reached a browser, and with them the `Origin` they send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// Over HTTP, or over HTTPS by way of a proxy.
    Any,
    /// Over HTTPS only: the listener speaks nothing else.
    Encrypted,
}

/// What a tenant's agents are made of beside what they declare.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) suspend_ttl: Millis,
    /// The servers that are mounted for the tenant.
    pub(crate) mounted: Vec<Mounted>,
    /// The tools of the node, and whose agents these are.
    pub(crate) registry: Registry,
    pub(crate) tenant: Tenant,
}

impl App {
    pub(crate) fn new(haft: Haft, keys: Keys, config: &Config, hosts: Hosts) -> Self {
        let made = || Workers::new(haft.registry().clone(), haft.store().clone());
        let workers = config.workers.clone().unwrap_or_else(made);
        workers.attach(&haft);
        Self(Arc::new(Inner {
            workers,
            objects: Objects::new(haft.store().clone()),
            presence: Presence::new(
                haft.store().clone(),
                haft.driver().node().clone(),
                haft.clock(),
            ),
            haft,
            keys,
            feeds: Feeds::default(),
            streams: Streams::new(config.streams),
            mounts: config.mounts.clone(),
            mcp_commands: config.mcp_commands,
            suspend_ttl: config.suspend_ttl,
            uploads: config.uploads.clone(),
            data: config.data.clone(),
            hosts,
            origins: config.origins.clone(),
            pages: if config.tls.is_some() { Pages::Encrypted } else { Pages::Any },
            invitation: Invitation::default(),
            webhooks: config.webhooks,
            metrics: Metrics::default(),
            readiness: Readiness::default(),
            shutdown: CancellationToken::new(),
        }))
    }

    pub(crate) fn haft(&self) -> &Haft {
        &self.0.haft
    }

    pub(crate) fn store(&self) -> &Store {
        self.0.haft.store()
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.0.keys
    }

    pub(crate) fn objects(&self) -> &Objects {
        &self.0.objects
    }

    pub(crate) fn feeds(&self) -> &Feeds {
        &self.0.feeds
    }

    pub(crate) fn streams(&self) -> &Streams {
        &self.0.streams
    }

    pub(crate) fn hosts(&self) -> &Hosts {
        &self.0.hosts
    }

    /// The sites beside our own whose pages may call.
    pub(crate) fn origins(&self) -> &[String] {
        &self.0.origins
    }

    pub(crate) fn pages(&self) -> Pages {
        self.0.pages
    }

    pub(crate) fn invitation(&self) -> &Invitation {
        &self.0.invitation
    }

    pub(crate) fn presence(&self) -> &Presence {
        &self.0.presence
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    pub(crate) fn readiness(&self) -> &Readiness {
        &self.0.readiness
    }

    pub(crate) fn webhooks(&self) -> WebhookSettings {
        self.0.webhooks
    }

    pub(crate) fn workers(&self) -> &Workers {
        &self.0.workers
    }

    pub(crate) fn mounts(&self) -> Option<&Mounts> {
        self.0.mounts.as_ref()
    }

    /// Whether commands of this host may be mounted over HTTP.
    pub(crate) fn mounts_commands(&self) -> bool {
        self.0.mcp_commands == AddedCommands::Allowed
    }

    /// What a tenant's agents are made of beside what they declare.
    pub(crate) fn ground(&self, tenant: &Tenant) -> Ground {
        let theirs = self.mounts().filter(|mounts| mounts.tenant() == tenant);
        let mounted = theirs.map(Mounts::list).unwrap_or_default();
        let suspend_ttl = self.0.suspend_ttl.unwrap_or(AGENT_SUSPEND_TTL);
        let (registry, tenant) = (self.0.haft.registry().clone(), tenant.clone());
        Ground { suspend_ttl, mounted, registry, tenant }
    }

    /// Returns how long calls wait, if the operator said so.
    pub(crate) fn suspend_ttl(&self) -> Option<Millis> {
        self.0.suspend_ttl
    }

    /// Where what is attached to sessions is put for their tools, each in a directory of its own.
    pub(crate) fn uploads(&self) -> Option<&Path> {
        self.0.uploads.as_deref()
    }

    /// The data directory, which a backup takes along and in which sessions have directories.
    pub(crate) fn data(&self) -> Option<&Path> {
        self.0.data.as_deref()
    }

    /// Cancelled when streams must end.
    pub(crate) fn shutdown(&self) -> &CancellationToken {
        &self.0.shutdown
    }

    /// The time; while a request is worked on that may be sent again, when that was first begun.
    pub(crate) fn now(&self) -> Timestamp {
        Request::current().map_or_else(|| self.0.haft.now(), |request| request.at())
    }

    /// Makes an id: ordered by time, unguessable, with a prefix that says what it names.
    pub(crate) fn fresh_id(&self, prefix: &str) -> Result<String, Error> {
        Ok(id_of(prefix, fresh_bits(self.now()).map_err(Error::internal)?))
    }
}

/// Writes an id with a prefix that says what it names.
pub(crate) fn id_of(prefix: &str, bits: u128) -> String {
    let printed = SessionId::from_bits(bits).to_string();
    let bare = printed.trim_start_matches(SessionId::PREFIX);
    format!("{prefix}{bare}")
}
