//! Vaults' secrets for the servers that are mounted here.

use haft_mcp::{Secrets, VaultEntry};
use haft_runtime::SealingKey;
use haft_store::{Store, Tenant, Which};
use serde_json::Value;

use crate::objects::Objects;
use crate::routes::v1::vault_credentials;
use crate::session_vaults::SessionVaults;

/// Looks up the secrets that mounted servers are given by reference: `vault://VAULT/CREDENTIAL`,
/// by the ids that `/v1/vaults` gives; finds the credentials that sessions bring for them; and
/// keeps the tokens that were given for them.
pub fn vault_secrets(store: Store, tenant: Tenant, key: SealingKey) -> Secrets {
    let vaults = SessionVaults::of(store.clone(), tenant.clone());
    let objects = Objects::new(store);
    let sealing = key.clone();
    let secrets = Secrets::new(move |entry| {
        let (objects, tenant, key) = (objects.clone(), tenant.clone(), key.clone());
        Box::pin(async move {
            let missing = || format!("{entry} is not there, or is archived");
            let found = sealed(&objects, &tenant, &entry).await;
            let sealed = found.ok_or_else(missing)?;
            let opened = key.open_secret(&entry.entry, &sealed);
            let opened = opened.map_err(|error| format!("{entry}: {error}"))?;
            String::from_utf8(opened).map_err(|_| missing())
        })
    });
    let secrets = secrets.with_credentials(move |(session, url)| {
        let vaults = vaults.clone();
        Box::pin(async move { vaults.credential(session, &url).await })
    });
    secrets.sealed_with(sealing)
}

async fn sealed(objects: &Objects, tenant: &Tenant, entry: &VaultEntry) -> Option<Vec<u8>> {
    let space = vault_credentials::space(&entry.vault);
    let found = objects.find_in(tenant, &space, &entry.entry, Which::Latest).await.ok()??;
    let text = found.members.get("sealed").and_then(Value::as_str)?;
    let digits = text.as_bytes().chunks(2);
    let bytes = digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    bytes.collect()
}
