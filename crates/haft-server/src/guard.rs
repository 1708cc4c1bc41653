//! What stands around every request: its id, the names it may come for, the shape of its errors.

use std::time::Instant;

use axum::Json;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, HOST, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, Request as HttpRequest, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::Instrument as _;

use crate::app::{App, Hosts, Pages};
use crate::connections;
use crate::error::{Error, Kind};

/// Gives a request its id, refuses what a browser was led to send, and writes errors out.
pub(crate) async fn answered(State(app): State<App>, request: Request, next: Next) -> Response {
    let id = app.fresh_id("req").unwrap_or_else(|_| "req".to_owned());
    let guest = guest(app.origins(), request.headers());
    let (started, method) = (Instant::now(), request.method().clone());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let request = connections::impatient(request);
    let mut response = match expected((app.hosts(), app.pages()), guest.as_ref(), &request) {
        // A browser asks before it sends a guest's request with a key.
        Ok(()) if guest.is_some() && request.method() == Method::OPTIONS => {
            StatusCode::NO_CONTENT.into_response()
        }
        Ok(()) => {
            // What is logged meanwhile says for which request.
            let span = tracing::info_span!("request", request_id = %id);
            next.run(request).instrument(span).await
        }
        Err(error) => error.into_response(),
    };
    if let Some(origin) = guest {
        welcome(response.headers_mut(), origin);
    }
    if let Some(error) = response.extensions_mut().remove::<Error>() {
        let (mut parts, _) = response.into_parts();
        let body = Json(error.body(&id)).into_response();
        parts.headers.extend(body.headers().clone());
        response = Response::from_parts(parts, body.into_body());
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("request-id", value);
    }
    let (took, status) = (started.elapsed(), response.status().as_u16());
    let route = route.as_ref().map(MatchedPath::as_str);
    app.metrics().answered(&method, route, status, took);
    let (route, ms) = (route.unwrap_or("(none)"), took.as_millis() as u64);
    tracing::debug!(request_id = %id, %method, route, status, ms, "answered");
    response
}

/// Returns the origin of a page of another site that the operator lets call.
fn guest(origins: &[String], headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(ORIGIN)?;
    let is_known = origins.iter().any(|known| known.as_bytes() == origin.as_bytes());
    is_known.then(|| origin.clone())
}

/// Lets a guest read the answer. Nothing of the browser's own is sent along: a guest brings a key.
fn welcome(headers: &mut HeaderMap, origin: HeaderValue) {
    let may = HeaderValue::from_static;
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(VARY, may("origin"));
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, may("GET, POST, DELETE"));
    headers.insert(
        ACCESS_CONTROL_ALLOW_HEADERS,
        may("authorization, content-type, idempotency-key, last-event-id, x-api-key"),
    );
    headers.insert(ACCESS_CONTROL_MAX_AGE, may("600"));
}

/// A page of another site can make a browser send requests here, but not under our name
/// (`Host`), and not without saying whose page it is (`Origin`).
fn expected<B>(
    (hosts, pages): (&Hosts, Pages),
    guest: Option<&HeaderValue>,
    request: &HttpRequest<B>,
) -> Result<(), Error> {
    let (headers, uri) = (request.headers(), request.uri());
    let refused = |message: String| Err(Error::new(Kind::Permission, message));
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let host = text(HOST).or_else(|| uri.authority().map(|authority| authority.as_str()));
    let Some(host) = host else {
        return refused("a request must name its host".to_owned());
    };
    if let Hosts::Local(more) = hosts
        && !is_local(host)
        && !more.iter().any(|known| known == host || known == name_of(host))
    {
        return refused(format!("this server is not called `{host}`"));
    }
    match text(ORIGIN) {
        Some(_) if guest.is_some() => Ok(()),
        Some(origin) if !is_own(origin, host, pages) => {
            refused(format!("pages of `{origin}` may not call this server"))
        }
        _ => Ok(()),
    }
}

/// Whether a page of ours has this origin when the request was sent to this host.
fn is_own(origin: &str, host: &str, pages: Pages) -> bool {
    origin
        .split_once("://")
        .is_some_and(|(scheme, rest)| rest == host && (pages == Pages::Any || scheme == "https"))
}

/// The host without its port.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(host, |(name, _)| name),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    }
}

fn is_local(host: &str) -> bool {
    ["localhost", "127.0.0.1", "::1"].contains(&name_of(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked_at(host: &str, origin: Option<&str>) -> bool {
        let mut request = HttpRequest::builder().uri("/").header(HOST, host);
        if let Some(origin) = origin {
            request = request.header(ORIGIN, origin);
        }
        let request = request.body(()).unwrap();
        let hosts = Hosts::Local(vec!["haft.example.org".to_owned()]);
        let origins = ["https://app.example.org".to_owned()];
        let guest = guest(&origins, request.headers());
        expected((&hosts, Pages::Any), guest.as_ref(), &request).is_ok()
    }

    #[test]
    fn a_page_that_came_unencrypted_cannot_call_a_server_of_https() {
        let (host, encrypted) = ("localhost:7800", Pages::Encrypted);
        assert!(is_own("https://localhost:7800", host, encrypted));
        assert!(!is_own("http://localhost:7800", host, encrypted));
        assert!(is_own("https://localhost:7800", host, Pages::Any));
    }

    #[test]
    fn a_page_of_another_site_cannot_call_here() {
        assert!(looked_at("127.0.0.1:7800", None));
        assert!(looked_at("[::1]:7800", None));
        assert!(looked_at("localhost:7800", Some("http://localhost:7800")));
        assert!(looked_at("haft.example.org", Some("https://haft.example.org")));
        assert!(looked_at("localhost:7800", Some("https://app.example.org")));
        assert!(!looked_at("localhost:7800", Some("http://app.example.org")));
        assert!(!looked_at("evil.example", Some("https://app.example.org")));
        assert!(!looked_at("evil.example", None));
        assert!(!looked_at("localhost.evil.example:7800", None));
        assert!(!looked_at("localhost:7800", Some("http://evil.example")));
        assert!(!looked_at("localhost:7800", Some("http://localhost:80")));
        assert!(!looked_at("localhost:7800", Some("null")));
    }
}
