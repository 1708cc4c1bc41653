//! What stands around every request: its id, the names it may come for, the shape of its errors.

use std::time::Instant;

use axum::Json;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, Request as HttpRequest, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::Instrument as _;

use crate::app::{App, Hosts, Pages};
use crate::connections;
use crate::error::{Error, Kind};
use crate::host::{Authority, Site, Unreadable};

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
    let mut named = headers.get_all(ORIGIN).iter();
    let origin = named.next().filter(|_| named.next().is_none())?;
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
    let refused = |message: String| Err(Error::new(Kind::Permission, message));
    let host = match Authority::of_request(request.headers(), request.uri()) {
        Ok(Some(host)) => host,
        Ok(None) => return refused("a request must name its host".to_owned()),
        Err(Unreadable(found)) => {
            return refused(format!("expected a host with an optional port, found {found:?}"));
        }
    };
    if let Hosts::Local(more) = hosts
        && !host.is_local()
        && !more.iter().any(|known| host.is(known))
    {
        return refused(format!("this server is not called `{host}`"));
    }
    match Site::of_request(request.headers()) {
        _ if guest.is_some() => Ok(()),
        Ok(None) => Ok(()),
        Ok(Some(site)) if is_own(&site, &host, pages) => Ok(()),
        Ok(Some(site)) => refused(format!("pages of `{site}` may not call this server")),
        Err(Unreadable(found)) => refused(format!("pages of {found:?} may not call this server")),
    }
}

/// Whether a page of ours has this origin when the request was sent to this host.
fn is_own(site: &Site, host: &Authority, pages: Pages) -> bool {
    site.is_of(host) && (pages == Pages::Any || site.is_encrypted())
}

#[cfg(test)]
mod tests {
    use axum::http::header::HOST;

    use super::*;

    fn looked_at(host: &str, origin: Option<&str>) -> bool {
        let mut request = HttpRequest::builder().uri("/").header(HOST, host);
        if let Some(origin) = origin {
            request = request.header(ORIGIN, origin);
        }
        let request = request.body(()).unwrap();
        let hosts = Hosts::Local(vec![Authority::parse("haft.example.org").unwrap()]);
        let origins = ["https://app.example.org".to_owned()];
        let guest = guest(&origins, request.headers());
        expected((&hosts, Pages::Any), guest.as_ref(), &request).is_ok()
    }

    #[test]
    fn a_page_that_came_unencrypted_cannot_call_a_server_of_https() {
        let host = Authority::parse("localhost:7800").unwrap();
        let own = |origin: &'static str, pages| {
            let headers = HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static(origin))]);
            is_own(&Site::of_request(&headers).unwrap().unwrap(), &host, pages)
        };
        assert!(own("https://localhost:7800", Pages::Encrypted));
        assert!(!own("http://localhost:7800", Pages::Encrypted));
        assert!(own("https://localhost:7800", Pages::Any));
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
        for host in ["[::1].evil.example", "localhost:evil.example", "127.0.0.1:x@evil.example"] {
            assert!(!looked_at(host, None), "{host}");
            let page = format!("http://{host}");
            assert!(!looked_at(host, Some(&page)), "{host}");
            assert!(!looked_at("localhost:7800", Some(&page)), "{host}");
        }
    }
}
