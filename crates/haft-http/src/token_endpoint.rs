//! Asks an OAuth token endpoint for an access token (RFC 6749).

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Answer, Client, Endpoint, NoRootsError, Reach, Timeouts, Trust, form};

/// How long each stage may take.
const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    first_byte: Duration::from_secs(15),
    idle: Duration::from_secs(5),
    total: Duration::from_secs(20),
};
/// The longest code of an error that is repeated.
const CODE_LEN_MAX: usize = 64;
/// The most that is read of an answer.
const READ_MAX: usize = 64 << 10;

/// How a client shows at a token endpoint who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ClientAuth {
    /// It says its id and shows nothing.
    None,
    /// With its secret, in a header.
    ClientSecretBasic,
    /// With its secret, in the form.
    ClientSecretPost,
}

/// What is asked of a token endpoint.
#[derive(Clone)]
pub struct TokenRequest<'a> {
    /// The URL of the token endpoint.
    pub endpoint: &'a str,
    /// The id of the client that asks.
    pub client_id: &'a str,
    /// How the client shows who it is.
    pub auth: ClientAuth,
    /// The secret that it shows, where `auth` says so.
    pub client_secret: Option<&'a str>,
    /// The fields of the form beside those of the client, `grant_type` among them.
    pub fields: Vec<(&'a str, &'a str)>,
}

/// Its fields hold secrets.
impl fmt::Debug for TokenRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenRequest({} at {})", self.client_id, self.endpoint)
    }
}

/// What the token endpoint gave.
#[derive(Clone, PartialEq, Eq)]
pub struct GivenToken {
    /// The access token.
    pub access_token: String,
    /// Another refresh token, if the old one is used up.
    pub refresh_token: Option<String>,
    /// For how many seconds the access token is good, if that was said.
    pub expires_in: Option<u64>,
    /// What the access token is good for, if that was said.
    pub scope: Option<String>,
}

/// Tokens are shown to nobody.
impl fmt::Debug for GivenToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GivenToken(expires in {:?} s, scope {:?})", self.expires_in, self.scope)
    }
}

/// Why the token endpoint gave nothing. What it says beside the code of its error is not part of
/// the message: it may hold what it was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It refused.
    #[error("it answered {}{}", reply.status, with_code(code.as_deref()))]
    Refused {
        /// The code of the error, if it had one.
        code: Option<String>,
        /// The whole answer.
        reply: Reply,
    },
    /// It did not answer, or with nothing that can be used.
    #[error("{0}")]
    Unanswered(String),
}

fn with_code(code: Option<&str>) -> String {
    code.map(|code| format!(" ({code})")).unwrap_or_default()
}

/// A whole answer, read up to a limit.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    /// The status code of the answer.
    pub status: u16,
    /// The header `content-type`, empty if there was none.
    pub content_type: String,
    /// The body, cut at the limit.
    pub body: Vec<u8>,
}

/// Its body may hold what was sent for it.
impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reply({})", self.status)
    }
}

impl Reply {
    /// Reads an answer to its end, or to the limit.
    pub async fn read(answer: Answer) -> Self {
        let status = answer.status.as_u16();
        let content_type = answer.header("content-type").unwrap_or_default().to_owned();
        Self { status, content_type, body: answer.start_of_body(READ_MAX).await }
    }

    /// Returns whether the status says that all went well.
    pub const fn is_success(&self) -> bool {
        matches!(self.status, 200..=299)
    }
}

/// Whether a text can be sent as a token.
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

impl TokenRequest<'_> {
    /// Asks for a token.
    ///
    /// # Errors
    ///
    /// When the endpoint refuses, or does not answer in time with a token that can be used.
    pub async fn send(
        &self,
        reach: Reach,
        trust: &Result<Trust, NoRootsError>,
    ) -> Result<GivenToken, TokenError> {
        let limit = TIMEOUTS.total;
        let late = |_| TokenError::Unanswered(format!("no answer within {} s", limit.as_secs()));
        tokio::time::timeout(limit, self.asked(reach, trust)).await.map_err(late)?
    }

    async fn asked(
        &self,
        reach: Reach,
        trust: &Result<Trust, NoRootsError>,
    ) -> Result<GivenToken, TokenError> {
        let endpoint = Endpoint::exactly(self.endpoint).map_err(unanswered)?;
        let client = Client::reaching(reach, endpoint, TIMEOUTS, trust).map_err(unanswered)?;
        let (headers, body) = self.parts()?;
        let answer = client.post(&headers, body.into_bytes()).await.map_err(unanswered)?;
        let reply = Reply::read(answer).await;
        match reply.is_success() {
            true => given(&reply.body),
            false => Err(TokenError::Refused { code: code(&reply.body), reply }),
        }
    }

    /// Returns the headers and the form.
    fn parts(&self) -> Result<(Vec<(HeaderName, HeaderValue)>, String), TokenError> {
        let (id, secret) = (self.client_id, self.client_secret.unwrap_or_default());
        let mut fields = self.fields.clone();
        let mut headers = vec![
            (CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded")),
            (ACCEPT, HeaderValue::from_static("application/json")),
        ];
        match self.auth {
            ClientAuth::None => fields.push(("client_id", id)),
            ClientAuth::ClientSecretPost => {
                fields.extend([("client_id", id), ("client_secret", secret)]);
            }
            ClientAuth::ClientSecretBasic => {
                let (id, secret) = (form::encode_value(id), form::encode_value(secret));
                let shown = STANDARD.encode(format!("{id}:{secret}"));
                let value = HeaderValue::from_str(&format!("Basic {shown}"));
                let mut value = value.map_err(unanswered)?;
                value.set_sensitive(true);
                headers.push((AUTHORIZATION, value));
            }
        }
        Ok((headers, form::encode(fields)))
    }
}

fn unanswered(error: impl fmt::Display) -> TokenError {
    TokenError::Unanswered(error.to_string())
}

fn given(body: &[u8]) -> Result<GivenToken, TokenError> {
    #[derive(Deserialize)]
    struct Given {
        access_token: String,
        token_type: Option<String>,
        refresh_token: Option<String>,
        /// A number, as the standard has it, or the text of one, as some have it.
        expires_in: Option<Value>,
        scope: Option<Value>,
    }
    // An error that repeats what it read would repeat a token.
    let unread = || TokenError::Unanswered("it gave no access token that can be read".to_owned());
    let given: Given = serde_json::from_slice(body).map_err(|_| unread())?;
    let is_bearer = given.token_type.is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"));
    if !is_bearer || !is_token(&given.access_token) {
        return Err(unread());
    }
    let seconds = |value: Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
    Ok(GivenToken {
        access_token: given.access_token,
        refresh_token: given.refresh_token.filter(|token| is_token(token)),
        expires_in: given.expires_in.and_then(seconds),
        scope: given.scope.and_then(|scope| scope.as_str().map(str::to_owned)),
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

    fn request(auth: ClientAuth) -> TokenRequest<'static> {
        let fields = vec![
            ("grant_type", "refresh_token"),
            ("refresh_token", "r+1"),
            ("scope", "read write"),
            ("resource", "https://mcp.example/"),
        ];
        let client_secret = Some("a&b:c");
        let endpoint = "https://auth.example/token";
        TokenRequest { endpoint, client_id: "it is me", auth, client_secret, fields }
    }

    #[test]
    fn a_client_shows_who_it_is_as_it_was_declared() {
        let start = "grant_type=refresh_token&refresh_token=r%2B1&scope=read+write\
                     &resource=https%3A%2F%2Fmcp.example%2F";
        let asked = |auth| request(auth).parts().unwrap();
        let (headers, body) = asked(ClientAuth::None);
        assert_eq!((headers.len(), body), (2, format!("{start}&client_id=it+is+me")));
        let (headers, body) = asked(ClientAuth::ClientSecretPost);
        let shown = "&client_id=it+is+me&client_secret=a%26b%3Ac";
        assert_eq!((headers.len(), body), (2, format!("{start}{shown}")));
        let (headers, body) = asked(ClientAuth::ClientSecretBasic);
        assert_eq!(body, start);
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

    #[test]
    fn what_an_endpoint_says_of_an_error_is_repeated_only_as_its_code() {
        let body = br#"{"error": "invalid_grant", "error_description": "CANARY"}"#.to_vec();
        let reply = Reply { status: 400, content_type: String::new(), body };
        let error = TokenError::Refused { code: code(&reply.body), reply };
        assert_eq!(error.to_string(), "it answered 400 (invalid_grant)");
        assert!(!format!("{error:?}").contains("CANARY"), "{error:?}");
    }
}
