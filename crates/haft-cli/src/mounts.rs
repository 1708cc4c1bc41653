//! The MCP servers that a node of this machine has mounted.

use std::time::Duration;

use haft_core::Digest;
use haft_http::Reach;
use haft_mcp::{MountRules, Mounts, Questions};
use haft_runtime::SealingKey;
use haft_runtime::registry::Registry;
use haft_server::vault_secrets;
use haft_store::{Store, Tenant};

use crate::api::{Api, Elsewhere};
use crate::config::{Change, ConfigFile};

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
/// What has changed since the server started is obeyed once its user has trusted it: an agent may
/// have written the file.
pub(crate) async fn follow(config: ConfigFile, obeyed: Digest, mounts: Mounts) {
    let (mut obeyed, mut complained) = (obeyed, None);
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let complaint = match config.change_since(obeyed) {
            Ok(None) => None,
            Ok(Some(Change::Untrusted(digest))) => {
                let path = config.path().display();
                Some(format!(
                    "`{path}` has changed and is not trusted ({digest}): \
                     `haft trust --config {path}` shows it and trusts it"
                ))
            }
            Ok(Some(Change::Obeyed(declared))) => {
                obeyed = declared.digest;
                mounts.reconfigure(declared.servers).await.err().map(|error| error.to_string())
            }
            Err(error) => Some(format!("{error:#}")),
        };
        // The same is said once, however often the file is looked at.
        if let Some(why) = complaint.as_ref().filter(|why| complained.as_ref() != Some(*why)) {
            tracing::error!(%why, "the mounted servers stay as they are");
        }
        complained = complaint;
    }
}
