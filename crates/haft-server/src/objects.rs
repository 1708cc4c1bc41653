//! Named things of a tenant (agents, environments …), kept as versions in the store.

use haft_core::{Actor, Timestamp};
use haft_store::{Erased, Erasure, Expected, Page, Place, Put, Store, Tenant, VersionInfo, Which};
use serde_json::{Map, Value};

use crate::error::Error;

/// How many keys of a space are read at once.
const KEYS_AT_ONCE: u32 = 500;

/// The members of a named thing, as they are kept.
pub(crate) type Members = Map<String, Value>;

/// The sorts of named things, each in a space of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    Agent,
    Environment,
    File,
    MemoryStore,
    Session,
    Skill,
    Vault,
}

impl Sort {
    /// What an id of this sort starts with.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Environment => "env",
            Self::File => "file",
            Self::MemoryStore => "memstore",
            Self::Session => "sesn",
            Self::Skill => "skill",
            Self::Vault => "vlt",
        }
    }

    /// Where those of this sort are kept.
    pub(crate) const fn space(self) -> &'static str {
        match self {
            Self::Agent => "v1/agents",
            Self::Environment => "v1/environments",
            Self::File => "v1/files",
            Self::MemoryStore => "v1/memory_stores",
            Self::Session => "v1/sessions",
            Self::Skill => "v1/skills",
            Self::Vault => "v1/vaults",
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
            Self::File => "file",
            Self::MemoryStore => "memory store",
            Self::Session => "session",
            Self::Skill => "skill",
            Self::Vault => "vault",
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
        let written = self.put_all(vec![(place, expected, members)], by, at).await?;
        written.first().copied().ok_or_else(|| Error::internal("the store wrote no version"))
    }

    /// Writes a version like [`Self::put`], and erases all before it in the same step.
    pub(crate) async fn replace(
        &self,
        place: Place,
        expected: Expected,
        members: &Members,
        by: &Actor,
        at: Timestamp,
    ) -> Result<u64, Error> {
        let body = Some(serde_json::to_vec(members).map_err(Error::internal)?);
        let erasures = vec![Erasure { place: place.clone(), versions: Erased::Earlier }];
        let written =
            self.store.erase(erasures, vec![Put { place, expected, body }], by, at).await?;
        written.first().copied().ok_or_else(|| Error::internal("the store wrote no version"))
    }

    /// Writes versions of several things in one step: all of them, or none.
    pub(crate) async fn put_all(
        &self,
        things: Vec<(Place, Expected, &Members)>,
        by: &Actor,
        at: Timestamp,
    ) -> Result<Vec<u64>, Error> {
        let put = |(place, expected, members)| {
            let body = Some(serde_json::to_vec(members).map_err(Error::internal)?);
            Ok(Put { place, expected, body })
        };
        let puts = things.into_iter().map(put).collect::<Result<Vec<_>, Error>>()?;
        Ok(self.store.put_versions(puts, by, at).await?)
    }

    /// Takes away what there is under an id.
    pub(crate) async fn remove(
        &self,
        tenant: &Tenant,
        sort: Sort,
        id: &str,
        by: &Actor,
        at: Timestamp,
    ) -> Result<(), Error> {
        let seen = self.get(tenant, sort, id).await?;
        self.delete(sort.place(tenant, id)?, &seen, by, at).await
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
        self.find_in(tenant, sort.space(), id, which).await
    }

    /// Reads a thing of any space.
    pub(crate) async fn find_in(
        &self,
        tenant: &Tenant,
        space: &str,
        id: &str,
        which: Which,
    ) -> Result<Option<Object>, Error> {
        // A text that no place can have is no thing's id.
        let Ok(place) = Place::new(tenant.clone(), space, id) else { return Ok(None) };
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

    /// Returns who owns a thing: whoever wrote its first version.
    pub(crate) async fn owner(
        &self,
        tenant: &Tenant,
        space: &str,
        id: &str,
    ) -> Result<Option<Actor>, Error> {
        let Ok(place) = Place::new(tenant.clone(), space, id) else { return Ok(None) };
        let first = self.store.version(&place, Which::Number(1)).await?;
        Ok(first.map(|first| first.info.by))
    }

    /// Reads a page of the versions of a thing, the latest first; one that took it away has no
    /// members.
    pub(crate) async fn versions(
        &self,
        tenant: &Tenant,
        sort: Sort,
        id: &str,
        page: &Page<u64>,
    ) -> Result<Vec<(VersionInfo, Option<Members>)>, Error> {
        let Ok(place) = sort.place(tenant, id) else { return Ok(Vec::new()) };
        let mut versions = Vec::new();
        for info in self.store.versions(&place, page).await? {
            let found = self.find(tenant, sort, id, Which::Number(info.number)).await?;
            versions.push((info, found.map(|object| object.members)));
        }
        Ok(versions)
    }

    /// Returns the ids of what is in a space, the newest first, as ids are ordered by time.
    pub(crate) async fn ids(&self, tenant: &Tenant, space: &str) -> Result<Vec<String>, Error> {
        let mut ids: Vec<String> = Vec::new();
        loop {
            let page = Page { after: ids.last().cloned(), limit: KEYS_AT_ONCE };
            let keys = self.store.keys(tenant, space, &page).await?;
            let is_last = keys.len() < KEYS_AT_ONCE as usize;
            ids.extend(keys.into_iter().map(|(id, _)| id));
            if is_last {
                ids.sort_by(|one, other| age(other).cmp(&age(one)));
                return Ok(ids);
            }
        }
    }

    /// Reads a page of things, the newest first, and where the next page starts.
    pub(crate) async fn list(
        &self,
        tenant: &Tenant,
        sort: Sort,
        after: Option<String>,
        limit: u32,
        wanted: impl Fn(&Object) -> bool,
    ) -> Result<(Vec<Object>, Option<String>), Error> {
        self.list_in(tenant, sort.space(), after, limit, wanted).await
    }

    /// Reads a page of the things that someone owns, the newest first; without an owner, of all.
    pub(crate) async fn list_owned(
        &self,
        (tenant, owner): (&Tenant, Option<&Actor>),
        sort: Sort,
        after: Option<String>,
        limit: u32,
        wanted: impl Fn(&Object) -> bool,
    ) -> Result<(Vec<Object>, Option<String>), Error> {
        self.listed((tenant, owner), sort.space(), after, limit, wanted).await
    }

    /// Reads a page of the things of any space, the newest first.
    pub(crate) async fn list_in(
        &self,
        tenant: &Tenant,
        space: &str,
        after: Option<String>,
        limit: u32,
        wanted: impl Fn(&Object) -> bool,
    ) -> Result<(Vec<Object>, Option<String>), Error> {
        self.listed((tenant, None), space, after, limit, wanted).await
    }

    async fn listed(
        &self,
        (tenant, owner): (&Tenant, Option<&Actor>),
        space: &str,
        after: Option<String>,
        limit: u32,
        wanted: impl Fn(&Object) -> bool,
    ) -> Result<(Vec<Object>, Option<String>), Error> {
        let mut objects: Vec<Object> = Vec::new();
        for id in self.ids(tenant, space).await? {
            if after.as_ref().is_some_and(|after| age(&id) >= age(after)) {
                continue;
            }
            let found = self.find_in(tenant, space, &id, Which::Latest).await?;
            let Some(found) = found.filter(&wanted) else { continue };
            if let Some(owner) = owner
                && self.owner(tenant, space, &id).await?.as_ref() != Some(owner)
            {
                continue;
            }
            if objects.len() == limit as usize {
                let next = objects.last().map(|last| last.id.clone());
                return Ok((objects, next));
            }
            objects.push(found);
        }
        Ok((objects, None))
    }
}

/// What orders ids by their age: those that are made hold their time, and those that a fresh
/// install brings are older than all of them.
fn age(id: &str) -> (bool, &str) {
    let is_made = id.rsplit_once('_').is_some_and(|(_, bare)| bare.len() == 26);
    (is_made, id)
}
