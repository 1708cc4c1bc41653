//! The vaults of a session: which of their credentials a mounted server is shown when the session
//! calls it, in place of what the mount has.
//!
//! The first of a session's vaults that has, or since the session began had, a credential for the
//! server decides. What was taken away there fails the call: a session is never let in as somebody
//! else than it was meant to be.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haft_core::session::Open;
use haft_core::{Millis, SessionId, Timestamp};
use haft_mcp::{Credential as Brought, VaultEntry};
use haft_runtime::{Clock, ToolError};
use haft_store::{Store, Tenant, Which};
use serde_json::Value;

use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::mcp_oauth::{Refresher, can_refresh};
use crate::objects::{Object, Objects, Sort};
use crate::owned;
use crate::routes::v1::agents::require_current;
use crate::routes::v1::vault_credentials::{self, Credential};
use crate::secrets::unrefreshed;

/// How many vaults a session may have: each is looked through before a call.
const VAULTS_MAX: usize = 50;
/// How many sessions are remembered.
const REMEMBERED_MAX: usize = 4096;
/// How long before its end an access token is refreshed, so that it lasts for the call.
const REFRESHED_BEFORE: Millis = Millis::from_secs(30);

/// Refuses vaults that are not there, those of somebody else, and those with what no session is given.
pub(crate) async fn checked(app: &App, caller: &Caller, vaults: &[String]) -> Result<(), Error> {
    if vaults.len() > VAULTS_MAX {
        return Err(Error::invalid(format!("vault_ids: expected at most {VAULTS_MAX}")));
    }
    for vault in vaults {
        require_current(&owned::get(app, caller, Sort::Vault, vault).await?)?;
        let credentials = vault_credentials::all(app.objects(), &caller.tenant, vault).await?;
        let is_variable = |known: &&Credential| known.is_current() && known.is_variable();
        if let Some(variable) = credentials.iter().find(is_variable) {
            let id = &variable.0.id;
            return Err(Error::unsupported(&format!(
                "vault_ids: an `environment_variable`, as `{vault}` has it in `{id}`,"
            )));
        }
    }
    Ok(())
}

/// The vaults of a tenant's sessions; a clone shares what is known about them.
#[derive(Clone)]
pub(crate) struct SessionVaults(Arc<Shared>);

struct Shared {
    store: Store,
    objects: Objects,
    tenant: Tenant,
    refresher: Refresher,
    /// What never changes. Ids are ordered by time.
    known: Mutex<BTreeMap<SessionId, Arc<Chosen>>>,
}

/// What was said when a session was opened.
#[derive(Default)]
struct Chosen {
    /// By their ids, in order.
    vaults: Vec<String>,
    at: Timestamp,
}

impl SessionVaults {
    pub(crate) fn of(store: Store, tenant: Tenant, refresher: Refresher) -> Self {
        let (objects, known) = (Objects::new(store.clone()), Mutex::default());
        Self(Arc::new(Shared { store, objects, tenant, refresher, known }))
    }

    /// Returns what the server at an address is shown when a session calls it.
    pub(crate) async fn credential(
        &self,
        session: SessionId,
        url: &str,
    ) -> Result<Option<Brought>, ToolError> {
        let chosen = self.chosen(session).await?;
        for vault in &chosen.vaults {
            let meant = self.meant(vault, url, chosen.at).await?;
            if meant.is_empty() {
                continue;
            }
            let kept = self.kept(vault).await?;
            let usable = usable(vault, kept.as_ref(), &meant).map_err(ToolError::auth)?;
            let version = self.unexpired(vault, usable).await.map_err(ToolError::auth)?;
            let entry = VaultEntry { vault: vault.clone(), entry: usable.0.id.clone() };
            return Ok(Some(Brought { entry, version }));
        }
        Ok(None)
    }

    /// Returns the version of a credential whose secret is not over, or who has to do what.
    async fn unexpired(&self, vault: &str, credential: &Credential) -> Result<u64, String> {
        let (id, number, now) = (&credential.0.id, credential.0.number, Clock::System.now());
        let Some(at) = credential.expires_at() else { return Ok(number) };
        let is_over = at <= now;
        match can_refresh(&credential.0) && (is_over || at.since(now) < REFRESHED_BEFORE) {
            true => {}
            false if is_over => {
                return Err(format!("`{id}` of the vault `{vault}` expired at {at}; {ACT}"));
            }
            false => return Ok(number),
        }
        let seen = self.0.refresher.opened(&credential.0).map(|held| held.access_token);
        match self.0.refresher.another(vault, id, &seen.unwrap_or_default()).await {
            Ok(number) => Ok(number),
            // What is still good is used for as long as it is.
            Err(_) if !is_over => Ok(number),
            Err(error) => Err(unrefreshed(vault, id, &error)),
        }
    }

    /// Returns the vaults of the session at the top: a sub-agent works for the same people.
    async fn chosen(&self, session: SessionId) -> Result<Arc<Chosen>, ToolError> {
        if let Some(known) = self.lock().get(&session) {
            return Ok(Arc::clone(known));
        }
        let loaded = self.0.store.load(session).await?;
        let open = loaded.as_ref().and_then(|loaded| loaded.state.as_open());
        let top = open.map(Open::root).ok_or_else(ToolError::cancelled)?.to_string();
        // The first version, also of a session that was deleted since.
        let first = Which::Number(1);
        let beside = self.0.objects.find(&self.0.tenant, Sort::Session, &top, first).await?;
        let chosen = Arc::new(match beside {
            Some(beside) => Chosen { vaults: vaults_of(&beside), at: beside.at },
            None => Chosen::default(),
        });
        let mut known = self.lock();
        known.insert(session, Arc::clone(&chosen));
        if known.len() > REMEMBERED_MAX {
            known.pop_first();
        }
        Ok(chosen)
    }

    /// Returns what a vault has for a server, or had since a moment.
    async fn meant(
        &self,
        vault: &str,
        url: &str,
        since: Timestamp,
    ) -> Result<Vec<Credential>, ToolError> {
        let mut all = vault_credentials::all(&self.0.objects, &self.0.tenant, vault).await?;
        all.retain(|known| known.is_for(url) && (known.is_current() || known.0.at >= since));
        Ok(all)
    }

    async fn kept(&self, vault: &str) -> Result<Option<Object>, ToolError> {
        Ok(self.0.objects.find(&self.0.tenant, Sort::Vault, vault, Which::Latest).await?)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, Arc<Chosen>>> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn vaults_of(beside: &Object) -> Vec<String> {
    let ids = beside.members.get("vault_ids").and_then(Value::as_array);
    ids.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Who has to do what about a credential that cannot be used.
const ACT: &str = "nothing else is used in its place: whoever keeps the vault has to put a current \
                   credential for this server there, or open a session with other `vault_ids`";

/// Returns the credential that is used of those that are meant, or who has to do what.
fn usable<'a>(
    vault: &str,
    kept: Option<&Object>,
    meant: &'a [Credential],
) -> Result<&'a Credential, String> {
    match kept {
        None => return Err(format!("this session's vault `{vault}` was deleted; {ACT}")),
        Some(kept) if kept.is_archived() => {
            return Err(format!("this session's vault `{vault}` is archived; {ACT}"));
        }
        Some(_) => {}
    }
    meant.iter().find(|known| known.is_current()).ok_or_else(|| {
        let ids: Vec<&str> = meant.iter().map(|known| known.0.id.as_str()).collect();
        let ids = ids.join("`, `");
        format!("`{ids}` of the vault `{vault}` is archived or deleted; {ACT}")
    })
}
