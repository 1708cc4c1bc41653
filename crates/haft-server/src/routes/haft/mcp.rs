//! `/haft/v1/mcp/servers`: the servers that are mounted here, how they are, and what of theirs
//! waits to be accepted.

use axum::Json;
use axum::extract::State;
use haft_core::{Digest, ToolName};
use haft_mcp::{
    Change, Declared, Grant, Health, MountError, Mounted, Mounts, OAuth, Origin, Peer, Setting,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

use crate::app::App;
use crate::caller::Caller;
use crate::error::{Error, Kind};
use crate::input::{Body, Params, Path};
use crate::keys::Scope;
use crate::routes::mcp::AUTHORIZED_AT;

/// Finds the mounts that a caller may look at: another tenant's are not there.
fn mounts<'a>(app: &'a App, caller: &Caller) -> Result<&'a Mounts, Error> {
    let found = app.mounts().filter(|mounts| *mounts.tenant() == caller.tenant);
    found.ok_or_else(|| Error::new(Kind::NotFound, "no servers can be mounted for this tenant"))
}

fn name(text: &str) -> Result<ToolName, Error> {
    ToolName::new(text).map_err(|error| Error::invalid(format!("name: {error}")))
}

impl From<MountError> for Error {
    fn from(error: MountError) -> Self {
        let kind = match &error {
            MountError::Store(_) => return Self::internal(error),
            MountError::Unknown { .. } => Kind::NotFound,
            MountError::Taken { .. } | MountError::OtherOffer { .. } => Kind::Conflict,
            MountError::Unreachable { .. }
            | MountError::Configured { .. }
            | MountError::Unauthorized { .. }
            | MountError::NotBegun
            | MountError::Declared(_) => Kind::Invalid,
        };
        Self::new(kind, error.to_string())
    }
}

pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    let found = mounts(&app, &caller).map(Mounts::list).unwrap_or_default();
    Ok(Json(json!({ "data": found.iter().map(shown).collect::<Vec<_>>() })))
}

pub(super) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(server): Path<String>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    Ok(Json(shown(&mounts(&app, &caller)?.find(&name(&server)?)?)))
}

/// A server, for people. What it is given is named and never shown.
fn shown(mounted: &Mounted) -> Value {
    let Mounted { config, origin, health, report } = mounted;
    let given = |settings: &BTreeMap<String, Setting>| {
        let named = settings.iter().map(|(name, value)| {
            let source = value.secret().map(ToString::to_string);
            (name.clone(), source.map_or_else(|| json!({ "set": true }), |v| json!({ "vault": v })))
        });
        Value::Object(named.collect::<Map<_, _>>())
    };
    let peer = match &config.peer {
        Peer::Command { program, args, env } => {
            let command: Vec<&String> = std::iter::once(program).chain(args).collect();
            let is_sandboxed = config.confinement.is_some();
            json!({ "command": command, "env": given(env), "sandbox": is_sandboxed })
        }
        Peer::Http { url, headers, oauth } => {
            json!({ "url": url, "headers": given(headers), "oauth": client(oauth) })
        }
    };
    let health = match health {
        Health::Up => json!({ "state": "up" }),
        Health::Idle => json!({ "state": "idle" }),
        Health::Unauthorized { message } => json!({ "state": "unauthorized", "message": message }),
        Health::Down { message, failures } => {
            json!({ "state": "down", "message": message, "failures": failures })
        }
    };
    json!({
        "name": config.name, "peer": peer, "health": health,
        "origin": match origin { Origin::Configured => "configured", Origin::Added => "added" },
        "timeout_ms": config.timeout,
        "start_timeout_ms": config.connect_timeout.as_millis(),
        "max_concurrent": config.max_concurrent, "tool_limits": config.tool_limits,
        "max_tools": config.max_tools, "unchecked_output": config.unchecked_output,
        "tools": report.tools,
        "pending": report.pending.iter().map(waiting).collect::<Vec<_>>(),
        "refused": report.refused,
        "findings": report.findings.iter().map(|finding| json!({
            "tool": finding.tool, "code": format!("{:?}", finding.code),
            "severity": format!("{:?}", finding.severity), "field": finding.field,
            "message": format!("{}; {}", finding.message, finding.fix),
        })).collect::<Vec<_>>(),
    })
}

/// Who this node is at a server that wants to know.
fn client(oauth: &OAuth) -> Value {
    json!({
        "grant": match oauth.grant {
            Grant::AuthorizationCode => "authorization_code",
            Grant::ClientCredentials => "client_credentials",
        },
        "client_id": oauth.client_id.as_ref().or(oauth.client_metadata_url.as_ref()),
        "scopes": oauth.scopes,
    })
}

/// What waits to be accepted, with what it was.
fn waiting(change: &Change) -> Value {
    json!({
        "tool": change.tool, "digest": change.digest.to_string(), "diff": change.diff,
        "change": if change.pinned.is_some() { "changed" } else { "new" },
        "offered": change.offered, "accepted": change.pinned,
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Added {
    name: String,
    #[serde(flatten)]
    declared: Map<String, Value>,
}

/// Mounts a server, and accepts what it offers now.
pub(super) async fn add(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    Body(added): Body<Added>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Admin)?;
    params.finish()?;
    let declared: Declared = crate::input::read(Value::Object(added.declared))?;
    if !declared.command.is_empty() && !app.mounts_commands() {
        let message = "a `command` runs on the host with this server's rights, so it is not added \
                       over HTTP; use `haft mcp add` where the server runs, or start it with \
                       `--allow-mcp-commands`";
        return Err(Error::new(Kind::Permission, message));
    }
    let (mounts, name) = (mounts(&app, &caller)?, name(&added.name)?);
    mounts.add(name.clone(), &declared, &caller.actor).await?;
    Ok(Json(shown(&mounts.find(&name)?)))
}

pub(super) async fn remove(
    State(app): State<App>,
    caller: Caller,
    Path(server): Path<String>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Admin)?;
    params.finish()?;
    mounts(&app, &caller)?.remove(&name(&server)?, &caller.actor).await?;
    Ok(Json(json!({})))
}

/// Asks a server anew what it offers.
pub(super) async fn refresh(
    State(app): State<App>,
    caller: Caller,
    Path(server): Path<String>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let (mounts, name) = (mounts(&app, &caller)?, name(&server)?);
    mounts.look_again(&name).await?;
    Ok(Json(shown(&mounts.find(&name)?)))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Accepted {
    tool: String,
    /// What was looked at: what changed since is not accepted along with it.
    digest: String,
}

pub(super) async fn accept(
    State(app): State<App>,
    caller: Caller,
    Path(server): Path<String>,
    params: Params,
    Body(accepted): Body<Accepted>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Admin)?;
    params.finish()?;
    let digest: Digest = accepted.digest.parse().map_err(|error| {
        Error::invalid(format!("digest: {error}; take it from what waits to be accepted"))
    })?;
    let (mounts, name) = (mounts(&app, &caller)?, name(&server)?);
    mounts.accept(&name, &accepted.tool, digest, &caller.actor).await?;
    Ok(Json(shown(&mounts.find(&name)?)))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Authorization {
    /// The address under which the person's browser reaches this server, as `https://host:port`.
    origin: String,
}

/// Begins to authorize this server at a mounted one: a person opens the address that is returned,
/// says yes there, and comes back here.
pub(super) async fn authorize(
    State(app): State<App>,
    caller: Caller,
    Path(server): Path<String>,
    params: Params,
    Body(authorization): Body<Authorization>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Admin)?;
    params.finish()?;
    let back_to = format!("{}{AUTHORIZED_AT}", origin(&authorization.origin)?);
    let (mounts, name) = (mounts(&app, &caller)?, name(&server)?);
    let open = mounts.authorize(&name, &back_to, &caller.actor).await?;
    Ok(Json(json!({ "open": open })))
}

fn origin(text: &str) -> Result<&str, Error> {
    let uri = text.parse::<axum::http::Uri>().ok();
    let is_origin = uri.is_some_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.path_and_query().is_none_or(|path| path.as_str() == "/")
    });
    let expected = "origin: expected the address of this server, as `https://host:port`";
    is_origin.then(|| text.trim_end_matches('/')).ok_or_else(|| Error::invalid(expected))
}
