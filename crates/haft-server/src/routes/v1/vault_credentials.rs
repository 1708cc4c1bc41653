//! `/v1/vaults/{id}/credentials`: secrets that are written and never read. They are kept sealed,
//! with the key that lives outside of the store.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use haft_core::Timestamp;
use haft_http::Reach;
use haft_store::{Expected, Place, Tenant, Which};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::agents::{merged, require_current};
use super::kept::End;
use super::{page, with_archived};
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::{Body, Params, Path, read};
use crate::keys::Scope;
use crate::mcp_oauth::{self, Held};
use crate::mcp_toolset::is_same_address;
use crate::objects::{Members, Object, Objects, Sort};
use crate::owned;
use crate::plan::checked_metadata;
use crate::secrets::{sealed_in, written};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Credential")]
pub(crate) struct Declared {
    auth: Value,
    display_name: Option<String>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

/// What a client says about a secret, and the secret.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Auth {
    StaticBearer {
        mcp_server_url: String,
        token: String,
    },
    /// For a server that is mounted here, which is given it by reference.
    EnvironmentVariable {
        secret_name: String,
        secret_value: String,
        networking: Value,
        injection_location: Option<Value>,
    },
    McpOauth(mcp_oauth::Declared),
}

impl Auth {
    /// Tells apart what is shown and what is sealed.
    fn parted(self, reach: Reach) -> Result<(Value, String), Error> {
        let (shown, secret) = match self {
            Self::StaticBearer { mcp_server_url, token } => {
                require_address(&mcp_server_url)?;
                let shown = json!({ "type": "static_bearer", "mcp_server_url": mcp_server_url });
                (shown, token)
            }
            Self::EnvironmentVariable { injection_location: Some(given), .. }
                if !given.is_null() =>
            {
                return Err(Error::unsupported("`auth.injection_location`"));
            }
            Self::EnvironmentVariable { secret_name, secret_value, networking, .. } => {
                if networking != json!({ "type": "unrestricted" }) {
                    return Err(Error::unsupported("an `auth.networking` that limits hosts"));
                }
                let shown = json!({
                    "type": "environment_variable", "secret_name": secret_name,
                    "networking": networking,
                    "injection_location": { "body": false, "header": false },
                });
                (shown, secret_value)
            }
            Self::McpOauth(declared) => {
                require_address(declared.server())?;
                declared.parted(reach)?
            }
        };
        match secret.is_empty() || secret.len() > 16 << 10 {
            true => Err(Error::invalid("auth: expected a secret of 1 to 16384 bytes")),
            false => Ok((shown, secret)),
        }
    }
}

fn require_address(url: &str) -> Result<(), Error> {
    match url.starts_with("https://") || url.starts_with("http://") {
        true => Ok(()),
        false => Err(Error::invalid("auth.mcp_server_url: expected an `https://` address")),
    }
}

/// A credential as it is kept. One that was deleted leaves what it was for, so that no session
/// that brought it is let in as somebody else.
pub(crate) struct Credential(pub(crate) Object);

impl Credential {
    /// The server that it is for, if it is for one.
    pub(crate) fn server(&self) -> Option<&str> {
        self.auth("mcp_server_url")
    }

    pub(crate) fn is_for(&self, url: &str) -> bool {
        self.server().is_some_and(|server| is_same_address(server, url))
    }

    pub(crate) fn is_variable(&self) -> bool {
        self.auth("type") == Some("environment_variable")
    }

    pub(crate) fn is_mcp_oauth(&self) -> bool {
        self.auth("type") == Some("mcp_oauth")
    }

    fn is_deleted(&self) -> bool {
        is_deleted(&self.0)
    }

    pub(crate) fn is_current(&self) -> bool {
        !self.is_deleted() && !self.0.is_archived()
    }

    /// When its secret is over, as whoever put it there said. What cannot be read is over.
    pub(crate) fn expires_at(&self) -> Option<Timestamp> {
        let said = Timestamp::parse_rfc3339(self.auth("expires_at")?);
        Some(said.unwrap_or(Timestamp::from_ms(0)))
    }

    fn auth(&self, member: &str) -> Option<&str> {
        self.0.members.get("auth")?.get(member)?.as_str()
    }
}

fn is_deleted(credential: &Object) -> bool {
    credential.text("deleted_at").is_some()
}

/// All credentials that a vault has or had, the oldest first.
pub(crate) async fn all(
    objects: &Objects,
    tenant: &Tenant,
    vault: &str,
) -> Result<Vec<Credential>, Error> {
    let space = space(vault);
    let mut all = Vec::new();
    for id in objects.ids(tenant, &space).await?.into_iter().rev() {
        all.extend(objects.find_in(tenant, &space, &id, Which::Latest).await?.map(Credential));
    }
    Ok(all)
}

pub(crate) fn space(vault: &str) -> String {
    format!("v1/vaults/{vault}/credentials")
}

fn place(caller: &Caller, vault: &str, id: &str) -> Result<Place, Error> {
    Ok(Place::new(caller.tenant.clone(), &space(vault), id)?)
}

async fn vault_of(app: &App, caller: &Caller, vault: &str) -> Result<Object, Error> {
    owned::get(app, caller, Sort::Vault, vault).await
}

/// Finds a credential that was not deleted.
pub(super) async fn find(
    app: &App,
    caller: &Caller,
    vault: &str,
    id: &str,
) -> Result<Object, Error> {
    vault_of(app, caller, vault).await?;
    let found = app.objects().find_in(&caller.tenant, &space(vault), id, Which::Latest).await?;
    let found = found.map(Credential).filter(|credential| !credential.is_deleted());
    let missing = || Error::not_found("credential of this vault", id);
    Ok(found.ok_or_else(missing)?.0)
}

fn shown(vault: &str, credential: &Object) -> Value {
    let mut shown = credential.members.clone();
    shown.remove("sealed");
    shown.insert("id".to_owned(), credential.id.as_str().into());
    shown.insert("type".to_owned(), "vault_credential".into());
    shown.insert("vault_id".to_owned(), vault.into());
    shown.insert("updated_at".to_owned(), credential.at.to_string().into());
    Value::Object(shown)
}

fn sealed(app: &App, id: &str, secret: &str) -> Result<Value, Error> {
    let sealed = app.haft().seal_secret(id, secret.as_bytes()).map_err(Error::internal)?;
    Ok(written(&sealed))
}

/// Opens what is sealed of a credential.
fn held(app: &App, credential: &Object) -> Option<Held> {
    let opened = app.haft().open_secret(&credential.id, &sealed_in(credential)?).ok()?;
    Held::read(credential.members.get("auth")?, opened)
}

pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    Path(vault): Path<String>,
    params: Params,
    Body(declared): Body<Declared>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    require_vault(&app, &caller, &vault).await?;
    checked_metadata(&declared.metadata)?;
    let (auth, secret) = read::<Auth>(declared.auth)?.parted(app.webhooks().reach)?;
    require_only(&app, &caller, &vault, &auth).await?;
    let (id, at) = (app.fresh_id("vcrd")?, app.now());
    let members = Members::from_iter([
        ("auth".to_owned(), auth),
        ("sealed".to_owned(), sealed(&app, &id, &secret)?),
        ("display_name".to_owned(), json!(declared.display_name)),
        ("metadata".to_owned(), json!(declared.metadata)),
        ("created_at".to_owned(), at.to_string().into()),
        ("archived_at".to_owned(), Value::Null),
    ]);
    let (to, expected) = (place(&caller, &vault, &id)?, Expected::Absent);
    let number = app.objects().put(to, expected, &members, &caller.actor, at).await?;
    let made = Object { id, number, members, at };
    if let Err(ended) = require_vault(&app, &caller, &vault).await {
        end_one(&app, &caller, &vault, made, End::Deleted).await?;
        return Err(ended);
    }
    Ok(Json(shown(&vault, &made)))
}

async fn require_vault(app: &App, caller: &Caller, vault: &str) -> Result<(), Error> {
    require_current(&vault_of(app, caller, vault).await?)
}

/// Refuses a second credential for one server: a session could not tell which is meant.
async fn require_only(app: &App, caller: &Caller, vault: &str, auth: &Value) -> Result<(), Error> {
    let Some(url) = auth.get("mcp_server_url").and_then(Value::as_str) else { return Ok(()) };
    let all = all(app.objects(), &caller.tenant, vault).await?;
    match all.iter().find(|known| known.is_current() && known.is_for(url)) {
        None => Ok(()),
        Some(known) => Err(Error::conflict(format!(
            "auth.mcp_server_url: the vault has `{}` for this server; change that one, or archive \
             it first",
            known.0.id
        ))),
    }
}

pub(crate) async fn retrieve(
    State(app): State<App>,
    caller: Caller,
    Path((vault, id)): Path<(String, String)>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    Ok(Json(shown(&vault, &find(&app, &caller, &vault, &id).await?)))
}

pub(crate) async fn update(
    State(app): State<App>,
    caller: Caller,
    Path((vault, id)): Path<(String, String)>,
    params: Params,
    Body(changes): Body<Map<String, Value>>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let credential = find(&app, &caller, &vault, &id).await?;
    require_current(&credential)?;
    let mut members = credential.members.clone();
    for (name, value) in changes {
        match name.as_str() {
            "display_name" if value.is_string() || value.is_null() => {
                members.insert(name, value);
            }
            "metadata" => {
                let metadata = merged(members.remove("metadata"), value);
                checked_metadata(&read(metadata.clone())?)?;
                members.insert(name, metadata);
            }
            "auth" => {
                let rotated = rotated(&credential, || held(&app, &credential), value)?;
                let (auth, secret) = read::<Auth>(rotated)?.parted(app.webhooks().reach)?;
                members.insert("sealed".to_owned(), sealed(&app, &id, &secret)?);
                members.insert(name, auth);
            }
            _ => return Err(Error::unsupported(&format!("a change of `{name}`"))),
        }
    }
    let at = app.now();
    Ok(Json(shown(&vault, &replaced(&app, &caller, &vault, credential, (members, at)).await?)))
}

/// Writes what a credential is from now on. What it was may hold another secret, or one that nobody
/// may use any more, and is erased.
async fn replaced(
    app: &App,
    caller: &Caller,
    vault: &str,
    seen: Object,
    (members, at): (Members, Timestamp),
) -> Result<Object, Error> {
    let (to, expected) = (place(caller, vault, &seen.id)?, Expected::Version(seen.number));
    let number = app.objects().replace(to, expected, &members, &caller.actor, at).await?;
    Ok(Object { number, members, at, ..seen })
}

/// Ends all credentials of a vault that ends.
pub(super) async fn end_all(
    app: &App,
    caller: &Caller,
    vault: &str,
    end: End,
) -> Result<(), Error> {
    let all = all(app.objects(), &caller.tenant, vault).await?;
    for Credential(credential) in all.into_iter().filter(Credential::is_current) {
        end_one(app, caller, vault, credential, end).await?;
    }
    Ok(())
}

/// Ends a credential, whatever else is done to it at the same time.
async fn end_one(
    app: &App,
    caller: &Caller,
    vault: &str,
    mut credential: Object,
    end: End,
) -> Result<(), Error> {
    let id = credential.id.clone();
    loop {
        let at = app.now();
        let members = match end {
            End::Archived => archived(&credential, at),
            End::Deleted => deleted(&credential, at),
        };
        match replaced(app, caller, vault, credential, (members, at)).await {
            Err(error) if error.is_conflict() => {}
            ended => return ended.map(drop),
        }
        let (space, which) = (space(vault), Which::Latest);
        let found = app.objects().find_in(&caller.tenant, &space, &id, which).await?;
        match found.map(Credential).filter(Credential::is_current) {
            Some(changed) => credential = changed.0,
            None => return Ok(()),
        }
    }
}

/// What stays of a credential that is archived: all but the secret.
fn archived(credential: &Object, at: Timestamp) -> Members {
    let mut members = credential.members.clone();
    members.insert("archived_at".to_owned(), at.to_string().into());
    members.remove("sealed");
    members
}

/// What stays of a credential that is deleted: what it was for.
fn deleted(credential: &Object, at: Timestamp) -> Members {
    let auth = credential.members.get("auth");
    let server = auth.and_then(|auth| auth.get("mcp_server_url"));
    Members::from_iter([
        ("auth".to_owned(), json!({ "mcp_server_url": server })),
        ("deleted_at".to_owned(), at.to_string().into()),
    ])
}

/// What a credential is after a change: another secret for the same server.
fn rotated(
    credential: &Object,
    held: impl FnOnce() -> Option<Held>,
    changes: Value,
) -> Result<Value, Error> {
    let kept = credential.members.get("auth").and_then(Value::as_object);
    let (Value::Object(changes), Some(kept)) = (changes, kept) else {
        return Err(Error::invalid("auth: expected an object"));
    };
    if changes.get("type") != kept.get("type") {
        return Err(Error::invalid("auth.type: a credential keeps its type"));
    }
    if changes.contains_key("mcp_server_url") {
        return Err(Error::unsupported("a change of `auth.mcp_server_url`"));
    }
    if kept.get("type").is_some_and(|kind| kind == "mcp_oauth") {
        return mcp_oauth::rotated(kept, held(), changes);
    }
    let mut rotated = kept.clone();
    rotated.remove("injection_location");
    rotated.extend(changes);
    Ok(Value::Object(rotated))
}

pub(crate) async fn archive(
    State(app): State<App>,
    caller: Caller,
    Path((vault, id)): Path<(String, String)>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let credential = find(&app, &caller, &vault, &id).await?;
    if credential.is_archived() {
        return Ok(Json(shown(&vault, &credential)));
    }
    let at = app.now();
    let members = archived(&credential, at);
    Ok(Json(shown(&vault, &replaced(&app, &caller, &vault, credential, (members, at)).await?)))
}

pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path((vault, id)): Path<(String, String)>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let credential = find(&app, &caller, &vault, &id).await?;
    let at = app.now();
    let members = deleted(&credential, at);
    replaced(&app, &caller, &vault, credential, (members, at)).await?;
    Ok(Json(json!({ "id": id, "type": "vault_credential_deleted" })))
}

pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(vault): Path<String>,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    let limit = params.limit(20, 100)?;
    let after = params.text("page");
    let all = with_archived(&mut params)?;
    params.finish()?;
    vault_of(&app, &caller, &vault).await?;
    let wanted =
        |credential: &Object| !is_deleted(credential) && (all || !credential.is_archived());
    let space = space(&vault);
    let (found, next) = app.objects().list_in(&caller.tenant, &space, after, limit, wanted).await?;
    Ok(Json(page(found.iter().map(|found| shown(&vault, found)).collect(), next)))
}
