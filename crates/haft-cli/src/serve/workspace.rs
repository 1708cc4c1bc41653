//! Where each session works: a directory of its own, with the network of its environment.

use std::path::PathBuf;

use haft_core::SessionId;
use haft_core::session::Network as Wanted;
use haft_sandbox::mounts::{Access, Mounts, Root};
use haft_sandbox::policy::Network;
use haft_sandbox::virtual_path::VirtualPath;
use haft_store::Store;
use haft_tools::Workspace;

/// Opens the workspace of a session, making its directory when it first needs one.
pub(super) async fn of(
    store: Store,
    workspaces: PathBuf,
    session: SessionId,
) -> Result<Workspace, String> {
    let loaded = store.load(session).await.map_err(|error| error.to_string())?;
    let open = loaded.as_ref().and_then(|loaded| loaded.state.as_open());
    let agent = open.and_then(|open| open.config.agent.as_ref());
    let environment = agent.and_then(|agent| agent.environment.as_ref());
    let host = workspaces.join(session.to_string());
    std::fs::create_dir_all(&host).map_err(|error| error.to_string())?;
    let home = VirtualPath::parse("/workspace", &VirtualPath::top());
    let home = home.map_err(|error| error.to_string())?;
    let root = Root { at: home.clone(), host, access: Access::ReadWrite };
    let mounts = Mounts::open([root]).map_err(|error| error.to_string())?;
    let mut workspace = Workspace::new(mounts, home);
    workspace.network = match environment.map(|environment| environment.network) {
        Some(Wanted::Host) => Network::Host,
        Some(Wanted::Off) | None => Network::Off,
    };
    Ok(workspace)
}
