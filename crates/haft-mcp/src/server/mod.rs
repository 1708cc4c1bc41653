//! Haft as an MCP server.

mod artifacts;
mod asks;
mod caller;
mod calls;
mod changes;
mod connection;
mod direct;
mod handler;
mod http;
mod listing;
mod once;
mod outcomes;
mod pending;
mod plain;
mod request_state;
mod requests;
mod serving;
mod sessions;
mod settings;
mod tasks;
mod transport_sessions;

use std::sync::Arc;

use haft_runtime::Haft;
use rmcp::ServiceExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::broadcast;

use crate::principal::Principal;
use crate::questions::{Attached, Questions};
use connection::Connection;
use handler::{Handler, Server};
use listing::Listing;
use sessions::Sessions;

pub use direct::DirectServer;
pub use http::{HttpDoor, McpService};
pub use settings::{Consent, ResourceSource, ServerSettings, SessionUse, TaskUse};

/// A node's tools for MCP clients; a clone shares it.
#[derive(Clone)]
pub struct McpServer(Arc<Shared>);

struct Shared {
    haft: Haft,
    questions: Questions,
    settings: ServerSettings,
    sessions: Sessions,
    listing: Listing,
    resource_changes: broadcast::Sender<String>,
    _attached: Attached,
}

/// How many changes of resources a slow client may miss.
const RESOURCE_CHANGES_MAX: usize = 256;

/// Why a connection ended before its client did.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The client did not open it as the protocol says.
    #[error("the client did not open the connection: {0}")]
    Opening(String),
    /// The task that serves it broke down.
    #[error("the connection broke down: {0}")]
    Broken(String),
}

#[haft_macros::boxed]
impl McpServer {
    /// Serves a node. Its tools ask through `questions`, which was given to
    /// [`crate::install`] when the node was built.
    pub fn new(haft: Haft, questions: Questions, settings: ServerSettings) -> Self {
        let attached = questions.attach(&haft);
        let (sessions, listing) = (Sessions::new(settings.sessions, &haft), Listing::default());
        let (resource_changes, _) = broadcast::channel(RESOURCE_CHANGES_MAX);
        let shared = Shared {
            haft,
            questions,
            settings,
            sessions,
            listing,
            resource_changes,
            _attached: attached,
        };
        Self(Arc::new(shared))
    }

    /// Tells whoever subscribed to a resource that it changed.
    pub fn resource_changed(&self, uri: &str) {
        // Nobody may be there to hear it.
        self.0.resource_changes.send(uri.to_owned()).unwrap_or_default();
    }

    /// Serves one client over this process's stdin and stdout, until it hangs up.
    ///
    /// # Errors
    ///
    /// When the client does not speak MCP.
    pub async fn serve_stdio(&self, principal: Principal) -> Result<(), ServeError> {
        self.serve(rmcp::transport::stdio(), principal).await
    }

    /// Serves one client over a pair of streams, until it hangs up.
    ///
    /// # Errors
    ///
    /// When the client does not speak MCP.
    pub async fn serve<R, W>(&self, streams: (R, W), principal: Principal) -> Result<(), ServeError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let connection = Connection::new(self.clone(), Some(principal));
        serve_streams(connection, (Box::new(streams.0), Box::new(streams.1))).await
    }

    /// Returns the service to mount, for example at `/mcp`.
    pub fn http(&self, door: HttpDoor) -> McpService {
        McpService::behind(door, Server::Stored(self.clone()))
    }
}

/// What is read from a client, and what is written to it.
type Streams = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

/// For one type of streams, so that the protocol is compiled here and not with each of them.
#[haft_macros::boxed]
async fn serve_streams(connection: Connection, streams: Streams) -> Result<(), ServeError> {
    let running = Handler::Stored(connection).serve(streams).await;
    let running = running.map_err(|error| ServeError::Opening(error.to_string()))?;
    let ended = running.waiting().await;
    ended.map(drop).map_err(|error| ServeError::Broken(error.to_string()))
}

impl std::fmt::Debug for McpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpServer").field("haft", &self.0.haft).finish_non_exhaustive()
    }
}
