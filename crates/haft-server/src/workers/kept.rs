//! The definitions of workers' tools, as the store keeps them.

use std::collections::BTreeMap;

use haft_core::tool::Definition;
use haft_core::{Actor, Digest, Timestamp};
use haft_store::{Expected, Page, Place, Put, PutError, Store, Tenant, Which};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Kind};

/// Of no tenant that anyone can be: names are the server's.
const TENANT: &str = "haft:server";
const SPACE: &str = "worker-tools";
/// How many are read at once.
const PAGE: u32 = 500;
/// How often a write is tried while other nodes write the same.
const TRIES_MAX: usize = 8;

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

    /// Returns the latest version of each, by its key.
    pub(super) async fn versions(&self) -> Result<BTreeMap<String, u64>, haft_store::Error> {
        let (mut all, mut after) = (BTreeMap::new(), None);
        let Ok(tenant) = Tenant::new(TENANT) else { return Ok(all) };
        loop {
            let page = Page { after: after.take(), limit: PAGE };
            let names = self.store.keys(&tenant, SPACE, &page).await?;
            let is_last = names.len() < PAGE as usize;
            after = names.last().map(|(name, _)| name.clone());
            all.extend(names.into_iter().map(|(name, version)| (name, version.number)));
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Reads one as it is now.
    pub(super) async fn read(&self, name: &str) -> Result<Option<FoundTool>, haft_store::Error> {
        let Ok(tenant) = Tenant::new(TENANT) else { return Ok(None) };
        let place = Place::new(tenant, SPACE, name)?;
        let found = self.store.version(&place, Which::Latest).await?;
        Ok(found.and_then(|found| {
            let body = found.body?;
            let whose = serde_json::from_slice(&body).ok().map(|Whose { tenant }| tenant);
            let tool = read(&body).and_then(|tool| match tool.definition.name.as_str() == name {
                true => Ok(tool),
                false => Err(format!("it is kept under the name `{name}`")),
            });
            Some(FoundTool { version: found.info.number, whose, tool })
        }))
    }

    /// Keeps one, unless one of a later worker is there already: another node may have been told
    /// in the meantime. Returns what is kept now, and its version.
    pub(super) async fn put(
        &self,
        kept: &KeptTool,
        by: &Actor,
        now: Timestamp,
    ) -> Result<(u64, KeptTool), Error> {
        let name = kept.definition.name.as_str();
        let body = body_of(kept)?;
        for _ in 0..TRIES_MAX {
            let expected = match self.read(name).await? {
                None => Expected::Absent,
                Some(found) if !found.is_of(&kept.tenant) => {
                    let message = "another tool of this server has the name";
                    return Err(Error::conflict(format!("tools: `{name}`: {message}")));
                }
                Some(FoundTool { version, tool: Ok(theirs), .. })
                    if theirs == *kept || theirs.since > kept.since =>
                {
                    return Ok((version, theirs));
                }
                Some(found) => Expected::Version(found.version),
            };
            if let Some(version) = self.write(name, (expected, Some(body.clone())), by, now).await?
            {
                return Ok((version, kept.clone()));
            }
        }
        let message = format!("tools: `{name}` is being registered with another node; try again");
        Err(Error::new(Kind::Overloaded, message))
    }

    /// Removes one, unless it is another one by now.
    pub(super) async fn remove(
        &self,
        kept: &KeptTool,
        by: &Actor,
        now: Timestamp,
    ) -> Result<(), Error> {
        let name = kept.definition.name.as_str();
        let Some(found) = self.read(name).await? else { return Ok(()) };
        if found.tool.as_ref() == Ok(kept) {
            // If it was not as expected, somebody has just registered it: it stays.
            self.write(name, (Expected::Version(found.version), None), by, now).await?;
        }
        Ok(())
    }

    /// Writes a version if what is there is as expected, and returns its number.
    async fn write(
        &self,
        name: &str,
        (expected, body): (Expected, Option<Vec<u8>>),
        by: &Actor,
        now: Timestamp,
    ) -> Result<Option<u64>, Error> {
        let tenant = Tenant::new(TENANT).map_err(Error::internal)?;
        let place = Place::new(tenant, SPACE, name)?;
        let put = Put { place, expected, body };
        match self.store.put_versions(vec![put], by, now).await {
            Ok(numbers) => Ok(numbers.first().copied()),
            Err(PutError::Moved { .. }) => Ok(None),
            Err(PutError::Store(error)) => Err(error.into()),
        }
    }
}

/// What the store has under a name.
pub(super) struct FoundTool {
    pub(super) version: u64,
    /// Whose it is, as far as that can be read.
    whose: Option<String>,
    pub(super) tool: Result<KeptTool, String>,
}

impl FoundTool {
    fn is_of(&self, tenant: &Tenant) -> bool {
        self.whose.as_deref().is_none_or(|whose| whose == tenant.as_str())
    }
}

/// The part of a record that says whose it is.
#[derive(Deserialize)]
struct Whose {
    tenant: String,
}

fn body_of(kept: &KeptTool) -> Result<Vec<u8>, Error> {
    let KeptTool { tenant, worker, since, digest, definition } = kept.clone();
    let tenant = tenant.as_str().to_owned();
    let record = Record { tenant, worker, since, digest, definition };
    serde_json::to_vec(&record).map_err(Error::internal)
}

fn read(body: &[u8]) -> Result<KeptTool, String> {
    let record: Record = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let Record { tenant, worker, since, digest, definition } = record;
    let tenant = Tenant::new(&tenant).map_err(|error| error.to_string())?;
    Ok(KeptTool { tenant, worker, since, digest, definition })
}
