//! The paths, a file for each resource.

mod fronts;
pub(crate) mod haft;
mod mcp;
mod probe;
pub(crate) mod v1;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::get;

use haft_mcp::McpServer;

use crate::app::App;
use crate::console;
use crate::error::{Error, Kind};
use crate::guard;
use crate::metrics;

/// The largest body that is read.
const BODY_MAX: usize = 8 << 20;

/// Puts all paths together.
pub(crate) fn router(app: App, served: Option<&McpServer>) -> Router {
    let mcp = served.map(|served| mcp::router(&app, served)).unwrap_or_default();
    Router::new()
        .merge(mcp)
        .merge(console::router())
        .nest("/v1", v1::router())
        .merge(fronts::router())
        .nest("/haft/v1", haft::router())
        .route("/healthz", get(probe::healthy))
        .route("/readyz", get(probe::ready))
        .route("/metrics", get(metrics::show))
        .fallback(|| async { Error::new(Kind::NotFound, "there is nothing at this path") })
        .method_not_allowed_fallback(|| async {
            Error::new(Kind::MethodNotAllowed, "this path does not take this method")
        })
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(middleware::from_fn_with_state(app.clone(), guard::answered))
        .with_state(app)
}
