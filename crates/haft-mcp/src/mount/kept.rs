//! The servers that were added while the node ran: kept in the store, for its next start.

use haft_core::{Actor, Timestamp, ToolName};
use haft_store::{Error, ErrorKind, Expected, Page, Place, Put, PutError, Store, Tenant, Which};

use super::declared::Declared;

/// Where they are kept.
const SPACE: &str = "mcp-servers";
/// How many are read at once.
const PAGE: u32 = 500;

pub(super) struct Kept {
    pub(super) store: Store,
    pub(super) tenant: Tenant,
}

impl Kept {
    pub(super) async fn all(&self) -> Result<Vec<(ToolName, Declared)>, Error> {
        let mut all = Vec::new();
        for key in self.keys().await? {
            let place = Place::new(self.tenant.clone(), SPACE, &key)?;
            let found = match self.store.version(&place, Which::Latest).await {
                // One row that nobody wrote must not keep the others from being mounted.
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    tracing::warn!(key, %error, "what is kept of a mounted server is not obeyed");
                    continue;
                }
                found => found?,
            };
            let Some(body) = found.and_then(|found| found.body) else { continue };
            match (ToolName::new(&key), serde_json::from_slice(&body)) {
                (Ok(name), Ok(declared)) => all.push((name, declared)),
                _ => tracing::warn!(key, "what is kept of a mounted server cannot be read"),
            }
        }
        Ok(all)
    }

    async fn keys(&self) -> Result<Vec<String>, Error> {
        let (mut found, mut page) = (Vec::new(), Page::first(PAGE));
        loop {
            let keys = self.store.keys(&self.tenant, SPACE, &page).await?;
            let is_last = keys.len() < PAGE as usize;
            found.extend(keys.into_iter().map(|(key, _)| key));
            match found.last() {
                Some(last) if !is_last => page = Page::after(last.clone(), PAGE),
                _ => return Ok(found),
            }
        }
    }

    /// Keeps a server, or forgets it.
    pub(super) async fn put(
        &self,
        name: &ToolName,
        declared: Option<&Declared>,
        by: &Actor,
        at: Timestamp,
    ) -> Result<(), Error> {
        let place = Place::new(self.tenant.clone(), SPACE, name.as_str())?;
        loop {
            let latest = self.store.version(&place, Which::Latest).await?;
            let expected = match &latest {
                Some(latest) => Expected::Version(latest.info.number),
                None => Expected::Absent,
            };
            let body = declared.map(|declared| serde_json::to_vec(declared).unwrap_or_default());
            let put = Put { place: place.clone(), expected, body };
            match self.store.put_versions(vec![put], by, at).await {
                Ok(_) => return Ok(()),
                Err(PutError::Moved { .. }) => {}
                Err(PutError::Store(error)) => return Err(error),
            }
        }
    }
}
