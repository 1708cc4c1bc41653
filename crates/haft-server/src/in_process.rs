//! The same paths without a listener, for a program that calls itself.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::{Method, Request};
use futures_util::StreamExt as _;
use haft_runtime::Haft;
use tokio_util::sync::DropGuard;
use tower_service::Service as _;

use crate::app::{App, Hosts};
use crate::demo;
use crate::keys::Keys;
use crate::presence;
use crate::routes;
use crate::server::{Config, StartError};

/// A node whose API is called in its own process: the answers are those that it would give over
/// HTTP. The caller is whoever holds the node's store, so there is nobody to be kept out.
#[derive(Clone)]
pub struct InProcess {
    router: Router,
    app: App,
    key: String,
    /// The last clone ends what runs beside it.
    _end: Arc<DropGuard>,
}

impl std::fmt::Debug for InProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InProcess").finish_non_exhaustive()
    }
}

/// The status of an answer, and its body piece by piece.
#[derive(Debug)]
pub struct InProcessAnswer {
    /// The HTTP status.
    pub status: u16,
    body: axum::body::BodyDataStream,
}

#[haft_macros::boxed]
impl InProcess {
    /// Puts the paths over a node. `key` is known to this process alone and opens everything.
    ///
    /// # Errors
    ///
    /// When the store cannot keep what a first start needs.
    pub async fn start(haft: Haft, key: String, config: Config) -> Result<Self, StartError> {
        let keys = Keys::new(haft.store().clone(), Some(&key));
        let app = App::new(haft, keys, &config, Hosts::Any);
        demo::install(&app).await.map_err(|error| StartError::Demo(error.to_string()))?;
        if let Some(grace) = config.client_grace {
            drop(tokio::spawn(presence::supervised(app.clone(), grace)));
        }
        let (streams, shutdown) = (app.streams().clone(), app.shutdown().clone());
        drop(tokio::spawn(streams.supervise(app.store().clone(), shutdown)));
        let router = routes::router(app.clone(), None);
        let end = Arc::new(app.shutdown().clone().drop_guard());
        Ok(Self { router, app, key, _end: end })
    }

    /// Asks for a path, with headers beside the key, and returns the answer once it begins.
    ///
    /// # Errors
    ///
    /// When method, path or headers are not such.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<InProcessAnswer, axum::http::Error> {
        let method = Method::from_bytes(method.as_bytes())?;
        let mut request = Request::builder().method(method).uri(path).header(HOST, "localhost");
        request = request.header(CONTENT_TYPE, "application/json").header("x-api-key", &self.key);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answered: Result<_, Infallible> =
            self.router.clone().call(request.body(Body::from(body))?).await;
        let Ok(answer) = answered;
        let (head, body) = answer.into_parts();
        Ok(InProcessAnswer { status: head.status.as_u16(), body: body.into_data_stream() })
    }

    /// Ends the streams that are being read.
    pub fn stop(&self) {
        self.app.shutdown().cancel();
    }
}

#[haft_macros::boxed]
impl InProcessAnswer {
    /// Returns the next bytes; nothing at the end, or when the node goes away.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.body.next().await?.ok()
    }
}
