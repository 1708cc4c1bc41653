//! The MCP servers that a node of this machine has mounted.

use std::time::Duration;

use haft_mcp::{Mounts, Questions};
use haft_runtime::SealingKey;
use haft_runtime::registry::Registry;
use haft_server::vault_secrets;
use haft_store::{Store, Tenant};

use crate::config::ConfigFile;

/// How often the configuration is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The mounts of a node that is about to start.
pub(crate) fn made(
    registry: Registry,
    store: Store,
    (questions, key, tenant): (&Questions, SealingKey, Tenant),
) -> Mounts {
    let secrets = vault_secrets(store.clone(), tenant.clone(), key);
    Mounts::new(registry, store, questions.clone(), secrets, tenant)
}

/// Keeps to the configuration as it changes: `haft mcp add` writes it while a server runs.
pub(crate) async fn follow(config: ConfigFile, mounts: Mounts) {
    let mut seen = config.changed_at();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let now = config.changed_at();
        if now == seen {
            continue;
        }
        seen = now;
        let done = match config.servers() {
            Ok(servers) => mounts.reconfigure(servers).await.map_err(Into::into),
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            tracing::error!("the servers stay as they are: {error:#}");
        }
    }
}
