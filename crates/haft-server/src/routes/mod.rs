//! The paths, a file for each resource.

mod fronts;
pub(crate) mod haft;
mod mcp;
mod probe;
pub(crate) mod v1;

use axum::extract::DefaultBodyLimit;
use axum::routing::get;
use axum::{Json, Router, middleware};

use haft_mcp::McpServer;

use crate::app::App;
use crate::console;
use crate::error::{Error, Kind};
use crate::gate;
use crate::guard;
use crate::metrics;
use crate::once;
use crate::openapi::{self, Paths};

/// Where a browser that `haft serve` sent here gets its key.
pub(crate) const LOGIN_AT: &str = "/haft/v1/login";
/// Where MCP clients are served.
pub(crate) const MCP_AT: &str = "/mcp";

/// The largest body that is read.
const BODY_MAX: usize = 8 << 20;

/// Puts all paths together.
pub(crate) fn router(app: App, served: Option<&McpServer>) -> Router {
    let mcp = served.map(|served| mcp::router(&app, served)).unwrap_or_default();
    let described = described();
    let document = openapi::document(&described);
    let once = middleware::from_fn_with_state(app.clone(), once::guarded);
    let api = described.into_router().merge(fronts::router()).route_layer(once);
    let gate = middleware::from_fn_with_state(app.clone(), gate::admitted);
    Router::new()
        .merge(mcp.merge(api).route_layer(gate))
        .merge(console::router())
        .route("/openapi.json", get(move || async move { Json(document) }))
        .route(mcp::AUTHORIZED_AT, get(mcp::authorized))
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

/// The paths of the API that is described.
fn described() -> Paths {
    Paths::new().nest("/v1", v1::paths()).nest("/haft/v1", haft::paths())
}

#[cfg(test)]
mod tests {
    use super::*;

    // A change of the API is agreed to by writing `HAFT_OPENAPI=agreed cargo test` what it is.
    #[test]
    fn the_api_is_as_it_was_agreed() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
        let found = serde_json::to_string_pretty(&openapi::document(&described())).unwrap() + "\n";
        if std::env::var("HAFT_OPENAPI").is_ok_and(|word| word == "agreed") {
            std::fs::write(path, &found).unwrap();
        }
        let agreed = std::fs::read_to_string(path).unwrap();
        assert!(
            found == agreed,
            "openapi.json differs from the routes; HAFT_OPENAPI=agreed takes the change"
        );
    }
}
