//! Credentials of the type `mcp_oauth`: an access token for a server, and what gets the next one
//! when it is over.
//!
//! What is shown stands in the credential's `auth`; the tokens and the client's secret are sealed
//! together and shown to nobody.

mod probe;
mod refresher;
mod said;

pub(crate) use probe::{Failed, probed};
pub(crate) use refresher::{Refresher, Sealing, Unrefreshed, can_refresh};

use haft_core::Timestamp;
use haft_http::Reach;
use haft_http::token_endpoint::{ClientAuth, GivenToken, TokenRequest, is_token};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::webhooks::{Remedy, require_reachable};

/// A credential as a client says it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "McpOauth")]
pub(crate) struct Declared {
    mcp_server_url: String,
    access_token: String,
    expires_at: Option<String>,
    refresh: Option<DeclaredRefresh>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeclaredRefresh {
    client_id: String,
    refresh_token: String,
    token_endpoint: String,
    token_endpoint_auth: DeclaredClient,
    resource: Option<String>,
    scope: Option<String>,
}

/// How the client shows at the token endpoint who it is, with what it shows.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum DeclaredClient {
    None {},
    ClientSecretBasic { client_secret: String },
    ClientSecretPost { client_secret: String },
}

/// Where the next access token is got, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Refresh {
    client_id: String,
    token_endpoint: String,
    token_endpoint_auth: ClientAuth,
    resource: Option<String>,
    scope: Option<String>,
}

/// What is sealed of a credential.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) access_token: String,
    refresh: Option<HeldRefresh>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct HeldRefresh {
    refresh_token: String,
    client_secret: Option<String>,
}

/// What is sealed where there is more than an access token.
#[derive(Serialize, Deserialize)]
struct HeldTogether {
    access_token: String,
    #[serde(flatten)]
    refresh: HeldRefresh,
}

impl Declared {
    /// Returns the server that it is for.
    pub(crate) fn server(&self) -> &str {
        &self.mcp_server_url
    }

    /// Tells apart what is shown and what is sealed.
    pub(crate) fn parted(self, reach: Reach) -> Result<(Value, String), Error> {
        // What is no time would never come.
        if let Some(Err(error)) = self.expires_at.as_deref().map(Timestamp::parse_rfc3339) {
            return Err(Error::invalid(format!("auth.expires_at: {error}")));
        }
        require_token("auth.access_token", &self.access_token)?;
        let parted = self.refresh.map(|refresh| refresh.parted(reach)).transpose()?;
        let (refresh, held) = parted.unzip();
        let shown = json!({
            "type": "mcp_oauth", "mcp_server_url": self.mcp_server_url,
            "expires_at": self.expires_at, "refresh": refresh,
        });
        Ok((shown, Held { access_token: self.access_token, refresh: held }.text()?))
    }
}

impl DeclaredRefresh {
    fn parted(self, reach: Reach) -> Result<(Refresh, HeldRefresh), Error> {
        let (member, url) = ("auth.refresh.token_endpoint", &self.token_endpoint);
        require_reachable(member, url, reach, Remedy::Flag)?;
        require_token("auth.refresh.refresh_token", &self.refresh_token)?;
        let (token_endpoint_auth, client_secret) = match self.token_endpoint_auth {
            DeclaredClient::None {} => (ClientAuth::None, None),
            DeclaredClient::ClientSecretBasic { client_secret } => {
                (ClientAuth::ClientSecretBasic, Some(client_secret))
            }
            DeclaredClient::ClientSecretPost { client_secret } => {
                (ClientAuth::ClientSecretPost, Some(client_secret))
            }
        };
        let shown = Refresh {
            client_id: self.client_id,
            token_endpoint: self.token_endpoint,
            token_endpoint_auth,
            resource: self.resource,
            scope: self.scope,
        };
        Ok((shown, HeldRefresh { refresh_token: self.refresh_token, client_secret }))
    }
}

fn require_token(member: &str, token: &str) -> Result<(), Error> {
    match is_token(token) {
        true => Ok(()),
        false => Err(Error::invalid(format!("{member}: expected a token of visible characters"))),
    }
}

impl Refresh {
    /// Reads where a credential is refreshed, from what is shown of it.
    fn of(auth: &Value) -> Option<Self> {
        serde_json::from_value(auth.get("refresh")?.clone()).ok()
    }

    /// Returns the request for the next access token.
    fn request<'a>(&'a self, held: &'a HeldRefresh) -> TokenRequest<'a> {
        let mut fields =
            vec![("grant_type", "refresh_token"), ("refresh_token", held.refresh_token.as_str())];
        fields.extend(self.scope.as_deref().map(|scope| ("scope", scope)));
        fields.extend(self.resource.as_deref().map(|resource| ("resource", resource)));
        TokenRequest {
            endpoint: &self.token_endpoint,
            client_id: &self.client_id,
            auth: self.token_endpoint_auth,
            client_secret: held.client_secret.as_deref(),
            fields,
        }
    }
}

impl Held {
    /// Reads what was sealed of a credential that shows this.
    pub(crate) fn read(auth: &Value, opened: Vec<u8>) -> Option<Self> {
        if auth.get("refresh").is_none_or(Value::is_null) {
            return Some(Self { access_token: String::from_utf8(opened).ok()?, refresh: None });
        }
        let HeldTogether { access_token, refresh } = serde_json::from_slice(&opened).ok()?;
        Some(Self { access_token, refresh: Some(refresh) })
    }

    /// Returns what nobody is to see of it.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let refresh = self.refresh.iter();
        let beside = refresh.flat_map(|held| {
            std::iter::once(held.refresh_token.clone()).chain(held.client_secret.clone())
        });
        std::iter::once(self.access_token.clone()).chain(beside).collect()
    }

    /// What is held once something was given for what was sent. Whoever put in another refresh
    /// token meanwhile is right; any other change is kept beside what was given, because what was
    /// sent may be used up.
    fn after(&self, sent: &Self, given: &GivenToken) -> Self {
        let mut next = self.clone();
        let (Some(refresh), Some(used)) = (&mut next.refresh, &sent.refresh) else { return next };
        if refresh.refresh_token != used.refresh_token {
            return next;
        }
        if let Some(token) = &given.refresh_token {
            refresh.refresh_token.clone_from(token);
        }
        if next.access_token == sent.access_token {
            next.access_token.clone_from(&given.access_token);
        }
        next
    }

    fn text(self) -> Result<String, Error> {
        match self.refresh {
            None => Ok(self.access_token),
            Some(refresh) => {
                let together = HeldTogether { access_token: self.access_token, refresh };
                serde_json::to_string(&together).map_err(Error::internal)
            }
        }
    }
}

/// What a credential is after a change, as a client would say it anew: what the change leaves out
/// stays. Without what was sealed, the change must bring all of it.
pub(crate) fn rotated(
    kept: &Map<String, Value>,
    held: Option<Held>,
    changes: Map<String, Value>,
) -> Result<Value, Error> {
    let mut rotated = kept.clone();
    if let Some(held) = held {
        rotated.insert("access_token".to_owned(), held.access_token.into());
        if let (Some(refresh), Some(held)) = (rotated.get_mut("refresh"), held.refresh) {
            refresh["refresh_token"] = held.refresh_token.into();
            if let Some(secret) = held.client_secret {
                refresh["token_endpoint_auth"]["client_secret"] = secret.into();
            }
        }
    }
    for (name, value) in changes {
        match name.as_str() {
            "access_token" | "refresh" if value.is_null() => {}
            "refresh" => refresh_rotated(rotated.get_mut("refresh"), value)?,
            _ => drop(rotated.insert(name, value)),
        }
    }
    Ok(Value::Object(rotated))
}

fn refresh_rotated(kept: Option<&mut Value>, changes: Value) -> Result<(), Error> {
    let Value::Object(changes) = changes else {
        return Err(Error::invalid("auth.refresh: expected an object"));
    };
    let Some(kept) = kept.and_then(Value::as_object_mut) else {
        return Err(Error::unsupported(
            "`auth.refresh` for a credential that was created without it",
        ));
    };
    for (name, value) in changes {
        match name.as_str() {
            "refresh_token" | "scope" | "token_endpoint_auth" if value.is_null() => {}
            "scope" if value == "" => drop(kept.insert(name, Value::Null)),
            "refresh_token" | "scope" => drop(kept.insert(name, value)),
            "token_endpoint_auth" => {
                if let Some(kept) = kept.get_mut("token_endpoint_auth") {
                    client_rotated(kept, &value)?;
                }
            }
            _ => return Err(Error::unsupported(&format!("a change of `auth.refresh.{name}`"))),
        }
    }
    Ok(())
}

/// A client keeps its way of showing who it is, and gets another secret.
fn client_rotated(kept: &mut Value, changes: &Value) -> Result<(), Error> {
    let invalid =
        |message: &str| Err(Error::invalid(format!("auth.refresh.token_endpoint_auth: {message}")));
    match changes["type"].as_str() {
        Some("client_secret_basic" | "client_secret_post") => {}
        _ => return invalid("expected the type `client_secret_basic` or `client_secret_post`"),
    }
    if kept["type"] == "none" {
        return invalid("this credential's client has no secret, and gets none");
    }
    if !changes["client_secret"].is_null() {
        kept["client_secret"] = changes["client_secret"].clone();
    }
    Ok(())
}
