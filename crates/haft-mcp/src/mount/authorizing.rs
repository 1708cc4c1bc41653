//! Authorizing this node at mounted servers.

use std::sync::Arc;

use haft_core::{Actor, ToolName};
use rmcp::transport::auth::AuthorizationCallback;

use super::desk::Desk;
use super::kept::Kept;
use super::oauth::{Authorizer, Safe, Tokens};
use super::{Mount, MountConfig, MountError, Mounted, Mounts, Peer};

#[haft_macros::boxed]
impl Mounts {
    /// Returns what gets tokens for a server; one that is given a token needs none.
    pub(super) fn authorizer(&self, config: &MountConfig, desk: &Arc<Desk>) -> Option<Authorizer> {
        let Peer::Http { url, headers, oauth } = &config.peer else { return None };
        if headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
            return None;
        }
        let Kept { store, tenant } = &self.0.kept;
        let key = self.0.secrets.key();
        let safe = Safe { store: store.clone(), tenant: tenant.clone(), key };
        let tokens = Tokens::new(safe, config.name.clone(), url, Arc::clone(desk));
        Some(Authorizer::new(url, oauth.clone(), tokens, self.0.secrets.clone()))
    }

    /// Begins to authorize this node at a server, and returns the address that a person opens.
    /// When they have said yes there, they are sent to `back_to`, whose whole address is what
    /// [`Mounts::authorized`] takes.
    ///
    /// # Errors
    ///
    /// When there is no such mount, or nobody can be asked there.
    pub async fn authorize(
        &self,
        name: &ToolName,
        back_to: &str,
        by: &Actor,
    ) -> Result<String, MountError> {
        let mount = self.get(name)?;
        let unauthorized =
            |message: String| MountError::Unauthorized { name: name.clone(), message };
        let Some(authorizer) = mount.links.own().authorizer() else {
            return Err(unauthorized("it is a command, or is given a token".to_owned()));
        };
        Box::pin(authorizer.begin(back_to, by)).await.map_err(unauthorized)
    }

    /// Ends an authorization with the address that the person was sent back to, and asks the
    /// server what it offers on behalf of whoever began it.
    ///
    /// # Errors
    ///
    /// When it was not begun here, was refused, or the server still cannot be reached.
    pub async fn authorized(&self, returned_to: &str) -> Result<Mounted, MountError> {
        let callback = AuthorizationCallback::from_redirect_url(returned_to);
        let callback = callback.map_err(|_| MountError::NotBegun)?;
        let mounts: Vec<Arc<Mount>> = self.lock().values().cloned().collect();
        for mount in mounts {
            let Some(authorizer) = mount.links.own().authorizer() else { continue };
            let Some(done) = Box::pin(authorizer.complete(&callback)).await else { continue };
            let name = mount.config.name.clone();
            let by = done.map_err(|message| MountError::Unauthorized { name, message })?;
            mount.links.own().authorized().await;
            self.take_stock(&mount, &by).await?;
            return Ok(mount.shown());
        }
        Err(MountError::NotBegun)
    }
}
