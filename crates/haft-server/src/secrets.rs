//! Vaults' secrets for the servers that are mounted here.

use haft_http::Reach;
use haft_mcp::{Secrets, VaultEntry};
use haft_runtime::SealingKey;
use haft_store::{Store, Tenant, Which};
use serde_json::Value;

use crate::mcp_oauth::{Refresher, Sealing, Unrefreshed};
use crate::objects::{Object, Objects};
use crate::routes::v1::vault_credentials;
use crate::session_vaults::SessionVaults;

/// Looks up the secrets that mounted servers are given by reference: `vault://VAULT/CREDENTIAL`,
/// by the ids that `/v1/vaults` gives; finds the credentials that sessions bring for them, and
/// refreshes those at token endpoints that are within reach; and keeps the tokens that were given
/// for them.
pub fn vault_secrets(store: Store, tenant: Tenant, key: SealingKey, reach: Reach) -> Secrets {
    let sealing = Sealing::Key(key.clone());
    let refresher = Refresher::new(store.clone(), tenant.clone(), sealing, reach);
    let vaults = SessionVaults::of(store.clone(), tenant.clone(), refresher.clone());
    let objects = Objects::new(store);
    let opening = refresher.clone();
    let secrets = Secrets::new(move |entry| {
        let (objects, tenant, opening) = (objects.clone(), tenant.clone(), opening.clone());
        Box::pin(async move {
            let missing = || format!("{entry} is not there, or is archived");
            let found = credential(&objects, &tenant, &entry).await.ok_or_else(missing)?;
            if sealed_in(&found).is_none() {
                return Err(missing());
            }
            let held = opening.opened(&found);
            let shut = || format!("{entry}: what was sealed does not open; was the key changed?");
            Ok(held.ok_or_else(shut)?.access_token)
        })
    });
    let secrets = secrets.with_credentials(move |(session, url)| {
        let vaults = vaults.clone();
        Box::pin(async move { vaults.credential(session, &url).await })
    });
    let secrets = secrets.with_renewal(move |(entry, shown)| {
        let refresher = refresher.clone();
        Box::pin(async move {
            match refresher.another(&entry.vault, &entry.entry, &shown).await {
                Ok(_) => Ok(true),
                Err(Unrefreshed::Gone | Unrefreshed::Never) => Ok(false),
                Err(error) => Err(unrefreshed(&entry.vault, &entry.entry, &error)),
            }
        })
    });
    secrets.sealed_with(key)
}

/// Says of a credential that cannot be refreshed who has to do what.
pub(crate) fn unrefreshed(vault: &str, id: &str, error: &Unrefreshed) -> String {
    let act = match error {
        Unrefreshed::Refused { .. } | Unrefreshed::Gone | Unrefreshed::Never => {
            "whoever keeps the vault has to authorize it anew and put the new tokens there"
        }
        Unrefreshed::Unanswered(_) | Unrefreshed::Store(_) => {
            "the next call tries again; if that does not help, whoever keeps the vault has to look \
             at its `token_endpoint`"
        }
    };
    format!("`{id}` of the vault `{vault}` was not refreshed: {error}; {act}")
}

async fn credential(objects: &Objects, tenant: &Tenant, entry: &VaultEntry) -> Option<Object> {
    let space = vault_credentials::space(&entry.vault);
    objects.find_in(tenant, &space, &entry.entry, Which::Latest).await.ok()?
}

/// Returns what is sealed in a credential.
pub(crate) fn sealed_in(credential: &Object) -> Option<Vec<u8>> {
    let text = credential.members.get("sealed").and_then(Value::as_str)?;
    let digits = text.as_bytes().chunks(2);
    let bytes = digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    bytes.collect()
}

/// Writes what is sealed into a credential.
pub(crate) fn written(sealed: &[u8]) -> Value {
    sealed.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}
