//! The server: a node bound to a listener.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use axum::Router;
use haft_core::Millis;
use haft_http::egress::EgressSettings;
use haft_mcp::{AddedCommands, McpServer, Mounts};
use haft_runtime::{Haft, supervise};
use tokio::net::TcpListener;

use crate::app::{App, Hosts};
use crate::connections;
use crate::demo;
use crate::erasing;
use crate::host::Authority;
use crate::keys::{FreshKey, KeyError, Keys};
use crate::limits::LimitSettings;
use crate::presence;
use crate::routes;
use crate::streams::StreamSettings;
use crate::tls::Tls;
use crate::webhooks::{self, WebhookSettings};
use crate::workers::Workers;

/// How a server behaves.
#[derive(Debug, Clone)]
pub struct Config {
    /// The admin key, when the operator chose one.
    pub admin_key: Option<String>,
    /// A key of this start for programs on this machine that can read what its operator can; kept
    /// by whoever gives it.
    pub local_key: Option<String>,
    /// How long a call waits for a person or a client. Without it, 300 seconds in the sessions of
    /// an agent, and as long as its tool declares when it is called directly.
    pub suspend_ttl: Option<Millis>,
    /// How long requests that are being answered may go on after the server was asked to stop.
    pub stop_timeout: Duration,
    /// Where what is attached to sessions is put for their tools, each in a directory of its own
    /// that [`crate::place_uploads`] fills.
    pub uploads: Option<PathBuf>,
    /// The data directory: a backup takes along what is in it, and the directories that sessions
    /// have in it are removed when they are deleted.
    pub data: Option<PathBuf>,
    /// Sessions that ended, or did nothing, for longer than this are deleted.
    pub retain: Option<Millis>,
    /// Names under which the server is called, beside those of this machine for itself.
    pub hosts: Vec<String>,
    /// What MCP clients are served at `/mcp`.
    pub mcp: Option<McpServer>,
    /// The servers whose tools the node has, for whoever administers them.
    pub mounts: Option<Mounts>,
    /// Whether a server may be mounted over HTTP that is a command on this host.
    pub mcp_commands: AddedCommands,
    /// How long a call for a client waits for one to be there, on whatever node; `None` for as long
    /// as it waits for anything.
    pub client_grace: Option<Millis>,
    /// Sites whose pages may call, such as `https://app.example.org`; without any, only the
    /// server's own.
    pub origins: Vec<String>,
    /// How much the streams that are read from the server may hold, and how slow their readers
    /// may be.
    pub streams: StreamSettings,
    /// How much may be asked of the server: connections, requests and bytes.
    pub limits: LimitSettings,
    /// How webhooks are delivered.
    pub webhooks: WebhookSettings,
    /// What the operator says about the network of sandboxes.
    pub egress: EgressSettings,
    /// The workers whose tools the node has; without it they are forgotten when the node stops.
    pub workers: Option<Workers>,
    /// A key of this start for the workers that it runs beside itself; kept by whoever gives it.
    pub worker_key: Option<String>,
    /// The certificate to serve HTTPS with; without it the listener speaks plain HTTP.
    pub tls: Option<Tls>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            admin_key: None,
            local_key: None,
            suspend_ttl: None,
            stop_timeout: Duration::from_secs(10),
            uploads: None,
            data: None,
            retain: None,
            hosts: Vec::new(),
            mcp: None,
            mounts: None,
            mcp_commands: AddedCommands::default(),
            client_grace: Some(Millis::from_secs(5)),
            origins: Vec::new(),
            streams: StreamSettings::default(),
            limits: LimitSettings::default(),
            webhooks: WebhookSettings::default(),
            egress: EgressSettings::default(),
            workers: None,
            worker_key: None,
            tls: None,
        }
    }
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The first key could not be made.
    #[error("the first API key could not be made: {0}")]
    Key(#[from] KeyError),
    /// What a fresh install shows could not be kept.
    #[error("the demo agent could not be kept: {0}")]
    Demo(String),
    /// A name of the server is no host.
    #[error("the server cannot be called `{0}`: expected a host with an optional port")]
    Host(String),
    /// The address cannot be told.
    #[error("the listener has no address: {0}")]
    Address(#[from] io::Error),
}

/// A node bound to a listener.
pub struct Server {
    app: App,
    listener: TcpListener,
    address: SocketAddr,
    first_key: Option<FreshKey>,
    mcp: Option<McpServer>,
    client_grace: Option<Millis>,
    invitation: Option<String>,
    tls: Option<Tls>,
    stop_timeout: Duration,
    retain: Option<Millis>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

#[haft_macros::boxed]
impl Server {
    /// Binds a node to a listener; nothing is answered yet.
    ///
    /// # Errors
    ///
    /// When the store cannot keep what a first start needs.
    pub async fn bind(
        haft: Haft,
        listener: TcpListener,
        config: Config,
    ) -> Result<Self, StartError> {
        let address = listener.local_addr()?;
        let keys = Keys::new(haft.store().clone(), config.admin_key.as_deref());
        let keys = keys.with_local(config.local_key.as_deref());
        let keys = keys.with_worker(config.worker_key.as_deref());
        let first_key = keys.first(haft.now()).await?;
        // Who listens on every address is called by names that only the operator knows.
        let hosts = match address.ip().is_unspecified() && config.hosts.is_empty() {
            true => Hosts::Any,
            false => Hosts::Local(named(&config.hosts, address)?),
        };
        let app = App::new(haft, keys, &config, hosts);
        demo::install(&app).await.map_err(|error| StartError::Demo(error.to_string()))?;
        let lasting = first_key.as_ref().map(FreshKey::reveal).or(config.admin_key.as_deref());
        let known = lasting.or(config.local_key.as_deref());
        // What is printed on this machine is meant for its own browser.
        let invitation = match known.filter(|_| address.ip().is_loopback()) {
            Some(key) => Some(
                app.invitation()
                    .to(key)
                    .map_err(|error| StartError::Key(KeyError::NoRandomness(error.to_string())))?,
            ),
            None => None,
        };
        let Config { mcp, client_grace, tls, stop_timeout, retain, .. } = config;
        Ok(Self {
            app,
            listener,
            address,
            first_key,
            mcp,
            client_grace,
            invitation,
            tls,
            stop_timeout,
            retain,
        })
    }

    /// Returns where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the admin key that was made because there was none; shown this once.
    pub fn first_key(&self) -> Option<&FreshKey> {
        self.first_key.as_ref()
    }

    /// Returns where the console is. On this machine, and when a key is known, the address signs
    /// its first visitor in.
    pub fn console_address(&self) -> String {
        let base = self.base_address();
        match &self.invitation {
            Some(token) => format!("{base}/#token={token}"),
            None => format!("{base}/"),
        }
    }

    /// Returns where it listens as the beginning of a URL, such as `https://127.0.0.1:7800`.
    pub fn base_address(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Returns the paths, for whoever puts more beside them.
    pub fn router(&self) -> Router {
        routes::router(self.app.clone(), self.mcp.as_ref())
    }

    /// Answers until `stop` is over, then lets what is being answered end.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        let shutdown = self.app.shutdown().clone();
        drop(tokio::spawn(async move {
            stop.await;
            shutdown.cancel();
        }));
        self.answer().await
    }

    /// Compiled here, and not with whatever ends it.
    fn answer(self) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send>> {
        let router = self.router();
        if let Some(grace) = self.client_grace {
            drop(tokio::spawn(presence::supervised(self.app.clone(), grace)));
        }
        let (store, app) = (self.app.store().clone(), self.app.clone());
        let (streams, shutdown) = (app.streams().clone(), app.shutdown().clone());
        drop(tokio::spawn(streams.supervise(store.clone(), shutdown)));
        let deliver = move || webhooks::deliver(app.clone());
        drop(tokio::spawn(tell_when_stopped(store.clone())));
        drop(tokio::spawn(supervise(store, "webhooks", deliver)));
        let (store, app, retain) = (self.app.store().clone(), self.app.clone(), self.retain);
        let erase = move || erasing::run(app.clone(), retain);
        drop(tokio::spawn(supervise(store, "erasing", erase)));
        let (store, workers) = (self.app.store().clone(), self.app.workers().clone());
        let follow = move || workers.clone().follow();
        let following = supervise(store, "workers", follow);
        let stopped = self.app.shutdown().clone();
        let ended = stopped.clone();
        drop(tokio::spawn(async move {
            tokio::select! {
                () = following => {}
                () = ended.cancelled() => {}
            }
        }));
        let (store, app) = (self.app.store().clone(), self.app.clone());
        let end_holds = move || {
            let (keys, app) = (app.keys().clone(), app.clone());
            let stopped = app.shutdown().clone();
            async move {
                let ending = keys.end_holds(move || app.haft().now());
                stopped.run_until_cancelled(ending).await.unwrap_or_default();
            }
        };
        drop(tokio::spawn(supervise(store, "keys", end_holds)));
        let limits = self.app.limits().clone();
        // Whoever drops this instead of stopping the server does not leave its loops behind.
        let end = stopped.clone().drop_guard();
        let tls = self.tls.as_ref().map(Tls::acceptor);
        let serving =
            connections::serve((self.listener, limits), tls, router, (stopped, self.stop_timeout));
        Box::pin(async move {
            let served = serving.await;
            drop(end);
            served
        })
    }
}

/// The names that the operator gave the server, and its own address.
fn named(hosts: &[String], address: SocketAddr) -> Result<Vec<Authority>, StartError> {
    let own = address.ip().to_string();
    let names = hosts
        .iter()
        .chain([&own])
        .map(|name| Authority::configured(name).ok_or_else(|| StartError::Host(name.clone())));
    names.collect()
}

/// Says in the log why the store takes no more writes, when it comes to that.
async fn tell_when_stopped(store: haft_store::Store) {
    let error = store.until_stopped().await;
    tracing::error!(%error, "the store takes no more writes; only a restart helps");
}
