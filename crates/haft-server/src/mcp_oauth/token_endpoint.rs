//! Asks whoever gives access tokens for the next one (RFC 6749, section 6).

use std::time::Duration;

use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haft_agent::http::{Client, Endpoint, NoRootsError, Reach, Timeouts, Trust};
use serde::Deserialize;
use serde_json::Value;

use super::said::Said;
use super::{ClientAuth, HeldRefresh, Refresh, is_token};

/// How long each stage may take.
const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    first_byte: Duration::from_secs(15),
    idle: Duration::from_secs(5),
    total: Duration::from_secs(20),
};
/// The longest code of an error that is repeated.
const CODE_LEN_MAX: usize = 64;

/// What the token endpoint gave.
pub(super) struct Given {
    pub(super) access_token: String,
    /// Another one, if the old one is used up.
    pub(super) refresh_token: Option<String>,
    /// For how many seconds the access token is good, if that was said.
    pub(super) expires_in: Option<u64>,
}

/// Why it gave nothing. What an endpoint says beside the code of its error is not repeated: it may
/// hold what it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotGiven {
    /// It answered so.
    Refused {
        /// The code of the error, if it had one.
        code: Option<String>,
        /// The whole answer.
        said: Said,
    },
    /// It did not answer, or with nothing that can be used.
    Unanswered(String),
}

/// Asks for the next access token.
pub(super) async fn asked(
    refresh: &Refresh,
    held: &HeldRefresh,
    reach: Reach,
    trust: &Result<Trust, NoRootsError>,
) -> Result<Given, NotGiven> {
    let limit = TIMEOUTS.total;
    let asking = tokio::time::timeout(limit, sent(refresh, held, reach, trust)).await;
    let late = |_| NotGiven::Unanswered(format!("no answer within {} s", limit.as_secs()));
    asking.map_err(late)?
}

async fn sent(
    refresh: &Refresh,
    held: &HeldRefresh,
    reach: Reach,
    trust: &Result<Trust, NoRootsError>,
) -> Result<Given, NotGiven> {
    let endpoint = Endpoint::exactly(&refresh.token_endpoint).map_err(unanswered)?;
    let client = Client::reaching(reach, endpoint, TIMEOUTS, trust).map_err(unanswered)?;
    let (headers, body) = request(refresh, held)?;
    let answer = client.post(&headers, body.into_bytes()).await.map_err(unanswered)?;
    let said = Said::read(answer).await;
    match said.is_success() {
        true => given(&said.body),
        false => Err(NotGiven::Refused { code: code(&said.body), said }),
    }
}

fn unanswered(error: impl std::fmt::Display) -> NotGiven {
    NotGiven::Unanswered(error.to_string())
}

/// The headers and the form of the request.
fn request(
    refresh: &Refresh,
    held: &HeldRefresh,
) -> Result<(Vec<(HeaderName, HeaderValue)>, String), NotGiven> {
    let (id, secret) = (&refresh.client_id, held.client_secret.as_deref().unwrap_or_default());
    let mut fields =
        vec![("grant_type", "refresh_token"), ("refresh_token", held.refresh_token.as_str())];
    let mut headers = vec![
        (CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded")),
        (ACCEPT, HeaderValue::from_static("application/json")),
    ];
    match refresh.token_endpoint_auth {
        ClientAuth::None => fields.push(("client_id", id)),
        ClientAuth::ClientSecretPost => {
            fields.extend([("client_id", id.as_str()), ("client_secret", secret)]);
        }
        ClientAuth::ClientSecretBasic => {
            let shown = STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret)));
            let value = HeaderValue::from_str(&format!("Basic {shown}"));
            let mut value = value.map_err(unanswered)?;
            value.set_sensitive(true);
            headers.push((AUTHORIZATION, value));
        }
    }
    fields.extend(refresh.scope.as_deref().map(|scope| ("scope", scope)));
    fields.extend(refresh.resource.as_deref().map(|resource| ("resource", resource)));
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    Ok((headers, fields.join("&")))
}

/// A value as it stands in a form.
fn encoded(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'*' => {
                text.push(char::from(byte));
            }
            b' ' => text.push('+'),
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    text
}

fn given(body: &[u8]) -> Result<Given, NotGiven> {
    #[derive(Deserialize)]
    struct Answer {
        access_token: String,
        token_type: Option<String>,
        refresh_token: Option<String>,
        /// A number, as the standard has it, or the text of one, as some have it.
        expires_in: Option<Value>,
    }
    // An error that repeats what it read would repeat a token.
    let unread = || NotGiven::Unanswered("it gave no access token that can be read".to_owned());
    let answer: Answer = serde_json::from_slice(body).map_err(|_| unread())?;
    let is_bearer = answer.token_type.is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"));
    if !is_bearer || !is_token(&answer.access_token) {
        return Err(unread());
    }
    let seconds = |value: Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
    Ok(Given {
        access_token: answer.access_token,
        refresh_token: answer.refresh_token.filter(|token| is_token(token)),
        expires_in: answer.expires_in.and_then(seconds),
    })
}

fn code(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let code = body["error"].as_str()?;
    let is_code = code.len() <= CODE_LEN_MAX
        && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    is_code.then(|| code.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refresh(token_endpoint_auth: ClientAuth) -> Refresh {
        Refresh {
            client_id: "it is me".to_owned(),
            token_endpoint: "https://auth.example/token".to_owned(),
            token_endpoint_auth,
            resource: Some("https://mcp.example/".to_owned()),
            scope: Some("read write".to_owned()),
        }
    }

    #[test]
    fn a_client_shows_who_it_is_as_it_was_declared() {
        let secret = Some("a&b:c".to_owned());
        let held = HeldRefresh { refresh_token: "r+1".to_owned(), client_secret: secret };
        let start = "grant_type=refresh_token&refresh_token=r%2B1";
        let end = "&scope=read+write&resource=https%3A%2F%2Fmcp.example%2F";
        let asked = |auth| request(&refresh(auth), &held).unwrap();
        let (headers, body) = asked(ClientAuth::None);
        assert_eq!((headers.len(), body), (2, format!("{start}&client_id=it+is+me{end}")));
        let (headers, body) = asked(ClientAuth::ClientSecretPost);
        let shown = "&client_id=it+is+me&client_secret=a%26b%3Ac";
        assert_eq!((headers.len(), body), (2, format!("{start}{shown}{end}")));
        let (headers, body) = asked(ClientAuth::ClientSecretBasic);
        assert_eq!(body, format!("{start}{end}"));
        let shown = STANDARD.encode("it+is+me:a%26b%3Ac");
        assert_eq!(headers[2].1.to_str().unwrap(), format!("Basic {shown}"));
    }

    #[test]
    fn what_is_no_token_for_a_header_is_not_taken() {
        let taken = |body: &str| given(body.as_bytes()).map(|given| given.expires_in);
        assert_eq!(taken(r#"{"access_token": "a", "expires_in": "60"}"#), Ok(Some(60)));
        assert_eq!(taken(r#"{"access_token": "a", "token_type": "bearer"}"#), Ok(None));
        for bad in [
            r#"{"access_token": "a\r\nx: y"}"#,
            r#"{"access_token": ""}"#,
            r#"{"access_token": "a", "token_type": "mac"}"#,
            "CANARY",
        ] {
            let error = format!("{:?}", taken(bad).unwrap_err());
            assert!(error.contains("no access token that can be read"), "{error}");
        }
        assert_eq!(code(br#"{"error": "invalid_grant"}"#).as_deref(), Some("invalid_grant"));
        assert_eq!(code(br#"{"error": "Your token CANARY-1 is over"}"#), None);
    }
}
