//! The MCP servers that a node of this machine has mounted.

use std::time::Duration;

use haft_http::Reach;
use haft_mcp::{MountRules, Mounts, Questions};
use haft_runtime::SealingKey;
use haft_runtime::registry::Registry;
use haft_server::vault_secrets;
use haft_store::{Store, Tenant};

use crate::api::{Api, Elsewhere};
use crate::config::ConfigFile;

/// How often the configuration is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The mounts of a node that is about to start, which refreshes credentials within a reach.
pub(crate) fn made(
    registry: Registry,
    store: Store,
    (questions, key, tenant): (&Questions, SealingKey, Tenant),
    reach: Reach,
    rules: MountRules,
) -> Mounts {
    let secrets = vault_secrets(store.clone(), tenant.clone(), key, reach);
    Mounts::with_rules(registry, store, questions.clone(), secrets, tenant, rules)
}

/// Says which servers' tools a command without a server goes without: it starts no programs that
/// the file names, which merely lies where the command was started.
pub(crate) fn note_left_out(api: &Api) {
    let config = ConfigFile::of_environment();
    let servers = match api.runs_elsewhere() {
        Elsewhere::Yes => return,
        // What is wrong with the file has been said by whoever read the settings.
        Elsewhere::No => config.servers().unwrap_or_default(),
    };
    let names: Vec<String> = servers.iter().map(|server| format!("`{}`", server.name)).collect();
    if !names.is_empty() {
        let names = names.join(", ");
        eprintln!("without the tools of {names}: MCP servers are mounted by `haft serve` only");
    }
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
