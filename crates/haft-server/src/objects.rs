//! Named things of a tenant (agents, environments …), kept as versions in the store.

use haft_core::{Actor, Timestamp};
use haft_store::{Expected, Page, Place, Put, Store, Tenant, Which};
use serde_json::{Map, Value};

use crate::error::Error;

/// The members of a named thing, as they are kept.
pub(crate) type Members = Map<String, Value>;

/// The sorts of named things, each in a space of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    Agent,
    Environment,
    Session,
}

impl Sort {
    /// What an id of this sort starts with.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Environment => "env",
            Self::Session => "sesn",
        }
    }

    const fn space(self) -> &'static str {
        match self {
            Self::Agent => "v1/agents",
            Self::Environment => "v1/environments",
            Self::Session => "v1/sessions",
        }
    }

    /// Where one is kept.
    pub(crate) fn place(self, tenant: &Tenant, id: &str) -> Result<Place, Error> {
        Ok(Place::new(tenant.clone(), self.space(), id)?)
    }

    /// What a person calls one.
    pub(crate) const fn noun(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Environment => "environment",
            Self::Session => "session",
        }
    }
}

/// A version of a named thing.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) id: String,
    /// Its number, from 1.
    pub(crate) number: u64,
    pub(crate) members: Members,
    /// When this version was written.
    pub(crate) at: Timestamp,
}

impl Object {
    /// Returns a member that is a text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.members.get(name).and_then(Value::as_str)
    }

    pub(crate) fn is_archived(&self) -> bool {
        self.text("archived_at").is_some()
    }
}

/// The named things of all tenants.
#[derive(Debug, Clone)]
pub(crate) struct Objects {
    store: Store,
}

impl Objects {
    pub(crate) fn new(store: Store) -> Self {
        Self { store }
    }

    /// Writes a version, if the thing is still as the writer saw it; returns its number.
    pub(crate) async fn put(
        &self,
        place: Place,
        expected: Expected,
        members: &Members,
        by: &Actor,
        at: Timestamp,
    ) -> Result<u64, Error> {
        let body = serde_json::to_vec(members).map_err(Error::internal)?;
        let put = Put { place, expected, body: Some(body) };
        let written = self.store.put_versions(vec![put], by, at).await?;
        written.first().copied().ok_or_else(|| Error::internal("the store wrote no version"))
    }

    /// Takes a thing away.
    pub(crate) async fn delete(
        &self,
        place: Place,
        seen: &Object,
        by: &Actor,
        at: Timestamp,
    ) -> Result<(), Error> {
        let put = Put { place, expected: Expected::Version(seen.number), body: None };
        self.store.put_versions(vec![put], by, at).await?;
        Ok(())
    }

    /// Reads a thing; one of another tenant is none.
    pub(crate) async fn find(
        &self,
        tenant: &Tenant,
        sort: Sort,
        id: &str,
        which: Which,
    ) -> Result<Option<Object>, Error> {
        // A text that no place can have is no thing's id.
        let Ok(place) = sort.place(tenant, id) else { return Ok(None) };
        let Some(version) = self.store.version(&place, which).await? else { return Ok(None) };
        let Some(body) = version.body else { return Ok(None) };
        let members = serde_json::from_slice(&body).map_err(Error::internal)?;
        let (number, at) = (version.info.number, version.info.at);
        Ok(Some(Object { id: id.to_owned(), number, members, at }))
    }

    /// Reads a thing that must be there.
    pub(crate) async fn get(&self, tenant: &Tenant, sort: Sort, id: &str) -> Result<Object, Error> {
        let found = self.find(tenant, sort, id, Which::Latest).await?;
        found.ok_or_else(|| Error::not_found(sort.noun(), id))
    }

    /// Reads a page of things, the oldest first, and where the next page starts.
    pub(crate) async fn list(
        &self,
        tenant: &Tenant,
        sort: Sort,
        after: Option<String>,
        limit: u32,
        wanted: impl Fn(&Object) -> bool,
    ) -> Result<(Vec<Object>, Option<String>), Error> {
        let (mut objects, mut after) = (Vec::new(), after);
        loop {
            let page = Page { after: after.clone(), limit };
            let keys = self.store.keys(tenant, sort.space(), &page).await?;
            let is_last = keys.len() < limit as usize;
            for (id, _) in keys {
                if objects.len() == limit as usize {
                    return Ok((objects, after));
                }
                after = Some(id.clone());
                let found = self.find(tenant, sort, &id, Which::Latest).await?;
                objects.extend(found.filter(&wanted));
            }
            if is_last {
                return Ok((objects, None));
            }
        }
    }
}
