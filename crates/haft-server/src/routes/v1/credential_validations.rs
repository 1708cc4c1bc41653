//! `…/credentials/{id}/mcp_oauth_validate`: whether a server takes a credential, tried there.

use axum::Json;
use axum::extract::State;
use haft_http::Reach;
use haft_mcp::{Mounts, Peer};
use haft_runtime::Redactor;
use haft_store::Tenant;
use serde_json::{Value, json};

use super::agents::require_current;
use super::vault_credentials::{Credential, find};
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::{Params, Path};
use crate::keys::Scope;
use crate::mcp_oauth::{Failed, Refresher, Sealing, Unrefreshed, can_refresh, probed};
use crate::mcp_toolset::is_same_address;
use crate::webhooks::{Remedy, require_reachable};

/// Whether a server takes a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Valid,
    Invalid,
    Unknown,
}

impl Verdict {
    const fn word(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Invalid => "invalid",
            Self::Unknown => "unknown",
        }
    }
}

/// What came of trying.
struct Tried {
    failed: Option<Failed>,
    /// What came of asking for another access token, if that was needed.
    refreshed: Option<Result<(), Unrefreshed>>,
}

pub(crate) async fn validate(
    State(app): State<App>,
    caller: Caller,
    Path((vault, id)): Path<(String, String)>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let credential = find(&app, &caller, &vault, &id).await?;
    require_current(&credential)?;
    let credential = Credential(credential);
    let (true, Some(url)) = (credential.is_mcp_oauth(), credential.server()) else {
        return Err(Error::invalid("only a credential of the type `mcp_oauth` is validated"));
    };
    let reach = reach(&app, &caller.tenant, url);
    require_reachable("auth.mcp_server_url", url, reach, Remedy::Mount)?;
    let sealing = Sealing::Node(app.haft().clone());
    let store = app.store().clone();
    let for_tokens = app.webhooks().reach;
    let refresher = Refresher::new(store, caller.tenant.clone(), sealing, for_tokens);
    let mut secrets = Vec::new();
    let tried = tried(&refresher, (&vault, &id), (url, reach), &mut secrets).await?;
    let redactor = Redactor::new(&secrets);
    Ok(Json(json!({
        "type": "vault_credential_validation", "credential_id": id, "vault_id": vault,
        "validated_at": app.now().to_string(), "status": tried.verdict().word(),
        "has_refresh_token": can_refresh(&credential.0),
        "mcp_probe": tried.failed.as_ref().map(|failed| json!({
            "method": failed.method,
            "http_response": failed.said.as_ref().map(|said| said.shown(&redactor)),
        })),
        "refresh": tried.refreshed.as_ref().map(|refreshed| shown(refreshed, &redactor, for_tokens)),
    })))
}

/// How far a token is sent to be tried: whoever tries it reads what is answered, so that it goes
/// into the operator's network only where the operator has a server mounted.
fn reach(app: &App, tenant: &Tenant, url: &str) -> Reach {
    let theirs = app.mounts().filter(|mounts| mounts.tenant() == tenant);
    let is_mounted = theirs.map(Mounts::list).unwrap_or_default().iter().any(|mounted| {
        matches!(&mounted.config.peer, Peer::Http { url: at, .. } if is_same_address(at, url))
    });
    match is_mounted {
        true => Reach::Anywhere,
        false => Reach::Public,
    }
}

/// Tries a credential at its server, and once more with another access token if the server does
/// not take the one that there is.
async fn tried(
    refresher: &Refresher,
    (vault, id): (&str, &str),
    (url, reach): (&str, Reach),
    secrets: &mut Vec<String>,
) -> Result<Tried, Error> {
    let unread = |error| match error {
        Unrefreshed::Store(error) => error,
        _ => Error::invalid("what is sealed of this credential does not open any more"),
    };
    let (_, held) = refresher.current(vault, id).await.map_err(unread)?;
    secrets.extend(held.secrets());
    let failed = match probed(url, &held.access_token, reach, refresher.trust()).await {
        Ok(()) => return Ok(Tried { failed: None, refreshed: None }),
        Err(failed) if failed.status() != Some(401) => {
            return Ok(Tried { failed: Some(failed), refreshed: None });
        }
        Err(failed) => failed,
    };
    if let Err(error) = refresher.another(vault, id, &held.access_token).await {
        return Ok(Tried { failed: Some(failed), refreshed: Some(Err(error)) });
    }
    let (_, held) = refresher.current(vault, id).await.map_err(unread)?;
    secrets.extend(held.secrets());
    let again = probed(url, &held.access_token, reach, refresher.trust()).await;
    Ok(Tried { failed: again.err(), refreshed: Some(Ok(())) })
}

impl Tried {
    fn verdict(&self) -> Verdict {
        let Some(failed) = &self.failed else { return Verdict::Valid };
        match (failed.status(), &self.refreshed) {
            (Some(401), Some(Err(Unrefreshed::Unanswered(_) | Unrefreshed::Store(_)))) => {
                Verdict::Unknown
            }
            (Some(401 | 403), _) => Verdict::Invalid,
            _ => Verdict::Unknown,
        }
    }
}

/// What a token endpoint says is shown only where it must be a public one: the others are the
/// operator's, and whoever put in the address may not read there.
fn shown(refreshed: &Result<(), Unrefreshed>, redactor: &Redactor, reach: Reach) -> Value {
    let (status, said) = match refreshed {
        Ok(()) => ("succeeded", None),
        Err(Unrefreshed::Refused { said, .. }) => ("failed", Some(said)),
        Err(Unrefreshed::Unanswered(_) | Unrefreshed::Store(_)) => ("connect_error", None),
        Err(Unrefreshed::Never | Unrefreshed::Gone) => ("no_refresh_token", None),
    };
    let said = said.map(|said| match reach {
        Reach::Public => said.shown(redactor),
        Reach::Anywhere | Reach::PublicOr(_) => said.status_only(),
    });
    json!({ "status": status, "http_response": said })
}
