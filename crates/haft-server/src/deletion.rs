//! What a stream of a session has to know of its deletion.

use haft_core::{SessionId, Timestamp};
use haft_store::{Tenant, Which};

use crate::app::App;
use crate::error::Error;
use crate::objects::Sort;

/// The session whose deletion ends a stream: the one that is followed, or the one above it.
#[derive(Debug, Clone)]
pub(crate) struct Deletable {
    pub(crate) tenant: Tenant,
    pub(crate) session: SessionId,
}

impl Deletable {
    /// Returns when the session was deleted; `None` while it is not.
    pub(crate) async fn deleted_at(&self, app: &App) -> Result<Option<Timestamp>, Error> {
        let place = Sort::Session.place(&self.tenant, &self.session.to_string())?;
        let latest = app.store().version(&place, Which::Latest).await?;
        match latest.filter(|latest| latest.body.is_none()) {
            Some(latest) => Ok(Some(latest.info.at)),
            // One that no client of the API opened has nothing beside it that could be deleted.
            None => Ok(app.store().erased(self.session).await?.map(|erased| erased.at)),
        }
    }
}
