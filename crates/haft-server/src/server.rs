//! The server: a node bound to a listener.

use std::future::Future;
use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::serve::ListenerExt as _;
use haft_core::Millis;
use haft_runtime::{Clock, Haft};
use tokio::net::TcpListener;

use crate::app::{App, Hosts};
use crate::demo;
use crate::keys::{FreshKey, KeyError, Keys};
use crate::routes;

/// How a server behaves.
#[derive(Debug, Clone)]
pub struct Config {
    /// The admin key, when the operator chose one.
    pub admin_key: Option<String>,
    /// How long a call waits for someone unless its tool says.
    pub suspend_ttl: Millis,
    /// Names under which the server is called, beside those of this machine for itself.
    pub hosts: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self { admin_key: None, suspend_ttl: Millis::from_secs(300), hosts: Vec::new() }
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
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

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
        let first_key = keys.first(Clock::System.now()).await?;
        // Who listens on every address is called by names that only the operator knows.
        let hosts = match address.ip().is_unspecified() && config.hosts.is_empty() {
            true => Hosts::Any,
            false => Hosts::Local([config.hosts, vec![address.ip().to_string()]].concat()),
        };
        let app = App::new(haft, keys, config.suspend_ttl, hosts);
        demo::install(&app).await.map_err(|error| StartError::Demo(error.to_string()))?;
        Ok(Self { app, listener, address, first_key })
    }

    /// Returns where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the admin key that was made because there was none; shown this once.
    pub fn first_key(&self) -> Option<&FreshKey> {
        self.first_key.as_ref()
    }

    /// Returns the paths, for whoever puts more beside them.
    pub fn router(&self) -> Router {
        routes::router(self.app.clone())
    }

    /// Answers until `stop` is over, then lets what is being answered end.
    ///
    /// # Errors
    ///
    /// When the listener fails.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        let router = self.router();
        let listener = self.listener.tap_io(|connection| {
            // Small frames go out at once.
            if let Err(error) = connection.set_nodelay(true) {
                tracing::debug!(%error, "a connection keeps its delay");
            }
        });
        let shutdown = self.app.shutdown().clone();
        let stopped = async move {
            stop.await;
            shutdown.cancel();
        };
        axum::serve(listener, router).with_graceful_shutdown(stopped).await
    }
}
