//! Authorizing this node at mounted servers.

use std::sync::Arc;

use haft_core::{Actor, ToolName};

use super::desk::Desk;
use super::oauth::{Authorizer, Returned, Tokens};
use super::{MountConfig, MountError, Mounted, Mounts, Peer};

#[haft_macros::boxed]
impl Mounts {
    /// Returns what gets tokens for a server; one that is given a token needs none.
    pub(super) fn authorizer(&self, config: &MountConfig, desk: &Arc<Desk>) -> Option<Authorizer> {
        let Peer::Http { url, headers, oauth } = &config.peer else { return None };
        if headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
            return None;
        }
        let tokens = Tokens::new(self.0.safe.clone(), config.name.clone(), url, Arc::clone(desk));
        let (authorizations, secrets) = (self.0.authorizations.clone(), self.0.secrets.clone());
        Some(Authorizer::new((url, config.reach, oauth.clone()), tokens, authorizations, secrets))
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
    /// server what it offers on behalf of whoever began it, here or on another node.
    ///
    /// # Errors
    ///
    /// When none waits for that answer, it was refused, or the server still cannot be reached.
    pub async fn authorized(&self, returned_to: &str) -> Result<Mounted, MountError> {
        let returned = Returned::read(returned_to).ok_or(MountError::NotBegun)?;
        let awaited = self.0.authorizations.find(&returned.state).await?;
        let awaited = awaited.ok_or(MountError::NotBegun)?;
        let mount = self.get(&awaited.begun.server)?;
        let authorizer = mount.links.own().authorizer().ok_or(MountError::NotBegun)?;
        let done = Box::pin(authorizer.complete(awaited, &returned)).await;
        let unauthorized = |message: String| {
            let name = mount.config.name.clone();
            MountError::Unauthorized { name, message }
        };
        let by = done.map_err(unauthorized)?;
        mount.links.own().authorized().await;
        self.take_stock(&mount, &by).await?;
        Ok(mount.shown())
    }
}
