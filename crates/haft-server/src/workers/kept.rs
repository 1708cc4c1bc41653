//! The definitions of workers' tools, as the store keeps them.

use std::collections::BTreeMap;

use haft_core::tool::Definition;
use haft_core::{Actor, Digest, Timestamp, ToolName};
use haft_store::{Expected, Page, Place, Put, PutError, Store, Tenant, Which};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Of no tenant that anyone can be: names are the server's.
const TENANT: &str = "haft:server";
const SPACE: &str = "worker-tools";
/// How many are read at once.
const PAGE: u32 = 500;

/// A tool that a worker registered.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct KeptTool {
    pub(super) tenant: Tenant,
    pub(super) worker: String,
    /// When the process first registered that has this definition.
    pub(super) since: Timestamp,
    /// Of the definition as the worker gave it.
    pub(super) digest: Digest,
    pub(super) definition: Definition,
}

#[derive(Serialize, Deserialize)]
struct Record {
    tenant: String,
    worker: String,
    since: Timestamp,
    digest: Digest,
    definition: Definition,
}

/// Reads and writes them.
pub(super) struct KeptTools {
    store: Store,
}

impl KeptTools {
    pub(super) fn new(store: Store) -> Self {
        Self { store }
    }

    /// Returns all of them. One that cannot be read is left out, and the log says so.
    pub(super) async fn all(&self) -> Result<BTreeMap<ToolName, KeptTool>, haft_store::Error> {
        let (mut all, mut after) = (BTreeMap::new(), None);
        let Ok(tenant) = Tenant::new(TENANT) else { return Ok(all) };
        loop {
            let page = Page { after: after.take(), limit: PAGE };
            let names = self.store.keys(&tenant, SPACE, &page).await?;
            for (name, _) in &names {
                let place = Place::new(tenant.clone(), SPACE, name)?;
                let found = self.store.version(&place, Which::Latest).await?;
                let Some(body) = found.and_then(|found| found.body) else { continue };
                match read(&body) {
                    Ok(kept) => drop(all.insert(kept.definition.name.clone(), kept)),
                    Err(error) => {
                        tracing::warn!(tool = %name, %error, "a worker's tool cannot be read");
                    }
                }
            }
            if names.len() < PAGE as usize {
                return Ok(all);
            }
            after = names.into_iter().next_back().map(|(name, _)| name);
        }
    }

    pub(super) async fn put(
        &self,
        kept: &KeptTool,
        by: &Actor,
        now: Timestamp,
    ) -> Result<(), Error> {
        let KeptTool { tenant, worker, since, digest, definition } = kept.clone();
        let name = definition.name.clone();
        let tenant = tenant.as_str().to_owned();
        let record = Record { tenant, worker, since, digest, definition };
        let body = serde_json::to_vec(&record).map_err(Error::internal)?;
        self.write(&name, Some(body), by, now).await
    }

    pub(super) async fn remove(
        &self,
        name: &ToolName,
        by: &Actor,
        now: Timestamp,
    ) -> Result<(), Error> {
        self.write(name, None, by, now).await
    }

    async fn write(
        &self,
        name: &ToolName,
        body: Option<Vec<u8>>,
        by: &Actor,
        now: Timestamp,
    ) -> Result<(), Error> {
        let tenant = Tenant::new(TENANT).map_err(Error::internal)?;
        let place = Place::new(tenant, SPACE, name.as_str())?;
        let put = Put { place, expected: Expected::Anything, body };
        match self.store.put_versions(vec![put], by, now).await {
            Ok(_) => Ok(()),
            Err(PutError::Store(error)) => Err(error.into()),
            Err(error @ PutError::Moved { .. }) => Err(Error::internal(error)),
        }
    }
}

fn read(body: &[u8]) -> Result<KeptTool, String> {
    let record: Record = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let Record { tenant, worker, since, digest, definition } = record;
    let tenant = Tenant::new(&tenant).map_err(|error| error.to_string())?;
    Ok(KeptTool { tenant, worker, since, digest, definition })
}
