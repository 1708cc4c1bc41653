//! Where each session works: a directory of its own, with the network of its environment.

use std::path::PathBuf;
use std::sync::Arc;

use haft_core::session::{Network as Wanted, Open};
use haft_core::{Digest, SessionId};
use haft_sandbox::mounts::{Access, Mounts, Root};
use haft_sandbox::virtual_path::VirtualPath;
use haft_server::{Placed, SKILLS_MOUNTED_AT, UPLOADS_MOUNTED_AT, place_skills, place_uploads};
use haft_store::{Store, Tenant};
use haft_tools::Workspace;

use super::egress::EgressGate;

/// Where the files that all sessions of an agent share are seen. They are changed through the tools
/// that promote drafts and keep notes, never directly.
const SHARED_AT: &str = "/workspace/agent";

/// Opens the workspace of a session, making its directory when it first needs one.
pub(super) async fn of(
    store: Store,
    data: PathBuf,
    egress: Arc<EgressGate>,
    session: SessionId,
) -> Result<Workspace, String> {
    let loaded = store.load(session).await.map_err(|error| error.to_string())?;
    let open = loaded.as_ref().and_then(|loaded| loaded.state.as_open());
    let wanted = open.map_or(&Wanted::Off, |open| open.config.network());
    let tenant = loaded.as_ref().map(|loaded| &loaded.tenant);
    let network = egress.network(wanted, tenant)?;
    let home_of = shared_with(&store, session, open).await.map_err(|error| error.to_string())?;
    let host = data.join("workspaces").join(home_of.to_string());
    std::fs::create_dir_all(&host).map_err(|error| error.to_string())?;
    let uploads = data.join("uploads").join(session.to_string());
    place_uploads(&store, session, &uploads).await.map_err(|error| error.to_string())?;
    let home = virtual_path("/workspace")?;
    let own = Root { at: home.clone(), host, access: Access::ReadWrite };
    let at = virtual_path(UPLOADS_MOUNTED_AT)?;
    let attached = Root { at, host: uploads, access: Access::ReadOnly };
    let mut roots = vec![own, attached];
    let skills = data.join("skills").join(session.to_string());
    let placed = place_skills(&store, session, &skills).await.map_err(|error| error.to_string())?;
    if placed == Placed::Files {
        let at = virtual_path(SKILLS_MOUNTED_AT)?;
        roots.push(Root { at, host: skills, access: Access::ReadOnly });
    }
    let agent = open.and_then(|open| open.config.agent.as_ref());
    if let Some((agent, tenant)) = agent.zip(tenant) {
        let host = data.join("agents").join(shared_by(tenant, &agent.id));
        std::fs::create_dir_all(&host).map_err(|error| error.to_string())?;
        let at = virtual_path(SHARED_AT)?;
        roots.push(Root { at, host, access: Access::ReadOnly });
    }
    let mounts = Mounts::open(roots).map_err(|error| error.to_string())?;
    let mut workspace = Workspace::new(mounts, home);
    workspace.network = network;
    Ok(workspace)
}

/// Names the directory of what an agent's sessions share. Ids of agents are those of a tenant.
fn shared_by(tenant: &Tenant, agent: &str) -> String {
    let whose = format!("{}\n{agent}", tenant.as_str());
    let digest = Digest::of_bytes(whose.as_bytes()).to_string();
    let short: String = digest.trim_start_matches("sha256:").chars().take(16).collect();
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let agent: String = agent.chars().take(64).map(plain).collect();
    format!("{agent}-{short}")
}

/// Returns the session whose files a session works with: an agent of a roster shares those of
/// whoever gives it work.
async fn shared_with(
    store: &Store,
    session: SessionId,
    open: Option<&Open>,
) -> Result<SessionId, haft_store::Error> {
    let Some(parent) = open.and_then(|open| open.parent) else { return Ok(session) };
    let loaded = store.load(parent.session).await?;
    let above = loaded.as_ref().and_then(|loaded| loaded.state.as_open());
    let has_roster = above.is_some_and(|above| !above.config.roster.is_empty());
    Ok(if has_roster { parent.session } else { session })
}

fn virtual_path(path: &str) -> Result<VirtualPath, String> {
    VirtualPath::parse(path, &VirtualPath::top()).map_err(|error| error.to_string())
}
