//! Requests that are nothing but a call.
//!
//! A request of the current revision stands alone, and still rmcp makes a connection for each: four
//! tasks and their channels, which cost several times what a small call does. So a call that wants
//! to hear nothing on the way is read here and goes straight to the verb that rmcp would lead it
//! to. Only what rmcp would certainly take is taken: everything else, and all that is wrong with a
//! request, is left for rmcp to answer.

use bytes::Bytes;
use http::header::{
    ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, RETRY_AFTER,
};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body::SizeHint;
use http_body_util::{BodyExt, Full};
use rmcp::model::{
    CallToolResponse, ClientCapabilities, ErrorCode, ErrorData, Implementation, JsonObject,
    RequestId, ServerJsonRpcMessage, ServerResult,
};
use serde::Deserialize;

use super::calls::is_unavailable;
use super::http::Answer;

/// The largest body that is read here; rmcp's own limit.
const BODY_MAX: u64 = 4 << 20;

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const PARAM_PREFIX: &str = "mcp-param-";

/// A request that is nothing but a call.
pub(super) struct PlainCall {
    pub(super) id: RequestId,
    pub(super) name: String,
    pub(super) arguments: JsonObject,
    pub(super) capabilities: ClientCapabilities,
    /// By which the call is recognised when it is made again.
    pub(super) key: Option<String>,
}

/// Returns whether a request may be one, by its head.
pub(super) fn is_headed(parts: &Parts, size: &SizeHint, hosts: Option<&[String]>) -> bool {
    let headers = &parts.headers;
    parts.method == Method::POST
        && only(headers, &PROTOCOL_VERSION).is_some_and(|version| version == "2026-07-28")
        && only(headers, &METHOD).is_some_and(|method| method == "tools/call")
        && only(headers, &NAME).is_some()
        && only(headers, &CONTENT_TYPE).is_some_and(|kind| kind == "application/json")
        && only(headers, &ACCEPT).is_some_and(takes_both)
        && only(headers, &HOST).is_some_and(|host| is_let_in(host, hosts))
        && parts.uri.authority().is_none()
        && !headers.contains_key(ORIGIN)
        && !headers.contains_key(SESSION)
        && !headers.keys().any(|name| name.as_str().starts_with(PARAM_PREFIX))
        && size.exact().is_some_and(|bytes| bytes <= BODY_MAX)
}

/// Reads the request; `None` if it is not one of these.
pub(super) fn read(headers: &HeaderMap, body: &[u8]) -> Option<PlainCall> {
    let Body { id, params, .. } = serde_json::from_slice(body).ok()?;
    let Params { name, arguments, meta } = params;
    let is_named = only(headers, &NAME).is_some_and(|header| *header == name.as_str());
    let arguments = arguments.unwrap_or_default();
    let Meta { client_capabilities: capabilities, idempotency_key: key, .. } = meta;
    is_named.then_some(PlainCall { id, name, arguments, capabilities, key })
}

/// Returns what a request is answered with.
pub(super) fn answer(id: RequestId, answered: Result<CallToolResponse, ErrorData>) -> Answer {
    let (status, message) = match answered {
        Ok(response) => {
            (StatusCode::OK, ServerJsonRpcMessage::response(ServerResult::from(response), id))
        }
        Err(error) => (status(&error), ServerJsonRpcMessage::error(error, Some(id))),
    };
    let (status, body) = match serde_json::to_vec(&message) {
        Ok(body) => (status, body),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string().into_bytes()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)).boxed());
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// The status that proxies and clients see who do not read the message.
fn status(error: &ErrorData) -> StatusCode {
    if is_unavailable(error) {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    match error.code {
        ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// Returns the value of a header that is there once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

fn takes_both(accept: &HeaderValue) -> bool {
    let accept = accept.to_str().unwrap_or_default();
    accept.contains("application/json") && accept.contains("text/event-stream")
}

/// Returns whether a host is one of the door's, with any port; any host where others have looked.
fn is_let_in(host: &HeaderValue, hosts: Option<&[String]>) -> bool {
    let (Ok(host), Some(hosts)) = (host.to_str(), hosts) else { return hosts.is_none() };
    let is_port = |rest: &str| {
        let port = rest.strip_prefix(':');
        rest.is_empty() || port.is_some_and(|port| port.parse::<u16>().is_ok())
    };
    hosts.iter().any(|allowed| host.strip_prefix(allowed.as_str()).is_some_and(is_port))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    #[serde(rename = "jsonrpc")]
    _jsonrpc: JsonRpc,
    id: RequestId,
    #[serde(rename = "method")]
    _method: Called,
    params: Params,
}

#[derive(Deserialize)]
enum JsonRpc {
    #[serde(rename = "2.0")]
    V2,
}

#[derive(Deserialize)]
enum Called {
    #[serde(rename = "tools/call")]
    Tool,
}

/// Without the answers and the state of an earlier round.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    name: String,
    arguments: Option<JsonObject>,
    #[serde(rename = "_meta")]
    meta: Meta,
}

/// Without a token for progress or a level for log messages.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Meta {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    _protocol_version: Revision,
    #[serde(rename = "io.modelcontextprotocol/clientInfo")]
    _client_info: Option<Implementation>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
    client_capabilities: ClientCapabilities,
    #[serde(rename = "haft/idempotencyKey")]
    idempotency_key: Option<String>,
}

#[derive(Deserialize)]
enum Revision {
    #[serde(rename = "2026-07-28")]
    Current,
}

#[cfg(test)]
mod tests {
    use http::Request;
    use serde_json::{Value, json};

    use super::*;

    fn head(name: &str) -> Parts {
        let request = Request::post("/mcp")
            .header("host", "localhost:7800")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", name);
        request.body(()).unwrap().into_parts().0
    }

    fn is_headed(parts: &Parts) -> bool {
        super::is_headed(parts, &SizeHint::with_exact(100), Some(&["localhost".to_owned()]))
    }

    fn body(change: impl FnOnce(&mut Value)) -> Vec<u8> {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": "add", "arguments": {"a": 2}, "_meta": meta});
        let mut body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        change(&mut body);
        body.to_string().into_bytes()
    }

    #[test]
    fn a_request_that_is_nothing_but_a_call_is_read() {
        assert!(is_headed(&head("add")));
        let call = read(&head("add").headers, &body(|_| {})).unwrap();
        assert_eq!((call.name.as_str(), &call.arguments["a"]), ("add", &json!(2)));
    }

    #[test]
    fn a_request_with_another_head_is_left_to_rmcp() {
        let changes = [
            ("host", "evil.example"),
            ("host", "localhost.evil.example"),
            ("host", "localhost:port"),
            ("origin", "http://evil.example"),
            ("mcp-protocol-version", "2025-11-25"),
            ("mcp-method", "tools/list"),
            ("mcp-session-id", "1"),
            ("mcp-param-region", "eu"),
            ("accept", "application/json"),
            ("content-type", "text/plain"),
        ];
        for (name, value) in changes {
            let mut parts = head("add");
            parts.headers.insert(name, HeaderValue::from_static(value));
            assert!(!is_headed(&parts), "{name}: {value}");
            let mut parts = head("add");
            parts.headers.append(name, HeaderValue::from_static(value));
            assert!(!is_headed(&parts), "twice {name}: {value}");
        }
        let hosts = ["localhost".to_owned()];
        let too_long = SizeHint::with_exact(BODY_MAX + 1);
        for size in [too_long, SizeHint::default()] {
            assert!(!super::is_headed(&head("add"), &size, Some(&hosts)));
        }
    }

    #[test]
    fn a_request_that_says_more_or_something_else_is_left_to_rmcp() {
        let changes: [fn(&mut Value); 8] = [
            |body| body["params"]["_meta"]["progressToken"] = json!(1),
            |body| body["params"]["requestState"] = json!("x"),
            |body| body["params"]["inputResponses"] = json!({}),
            |body| body["params"]["_meta"] = json!({}),
            |body| body["params"]["arguments"] = json!([]),
            |body| body["params"]["name"] = json!("subtract"),
            |body| body["id"] = Value::Null,
            |body| body["jsonrpc"] = json!("1.0"),
        ];
        for change in changes {
            let body = body(change);
            let text = String::from_utf8_lossy(&body);
            assert!(read(&head("add").headers, &body).is_none(), "{text}");
        }
    }
}
