//! Memories: texts at paths of a memory store. Every change is a version that stays.
//!
//! A memory is a key of its store's space, and so is its path, which names the memory that has
//! it. Both are written in one step, so that no two memories ever have one path.
//!
//! A version that is redacted is erased from the store; what it did, and who redacted it when, is
//! kept under its id in a space beside.

use std::collections::BTreeSet;

use haft_core::{Actor, ActorKind, Digest, Timestamp};
use haft_store::{
    Erased, Erasure, Expected, Page, Place, Put, PutError, Store, Tenant, VersionInfo, Which,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::{Error, Kind};

/// The largest content.
const CONTENT_BYTES_MAX: usize = 100 << 10;
const PATH_BYTES_MAX: usize = 1024;
const SEGMENTS_MAX: usize = 20;
/// How many memories a store may have.
const MEMORIES_MAX: usize = 2_000;

/// Whether content is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Basic,
    Full,
}

/// What a version did to its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Operation {
    Created,
    Modified,
    Deleted,
}

/// A version, as it is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Kept {
    operation: Operation,
    path: String,
    content: String,
    created_at: Timestamp,
}

/// What is kept of a version that was redacted.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Remains {
    operation: Operation,
}

/// A version, for whoever looks at the history.
#[derive(Debug, Clone)]
pub(crate) enum Version {
    Kept(Memory),
    Redacted(Redacted),
}

impl Version {
    pub(crate) fn operation(&self) -> Operation {
        match self {
            Self::Kept(memory) => memory.operation(),
            Self::Redacted(redacted) => redacted.remains.operation,
        }
    }

    /// Writes it as the API shows a version.
    pub(crate) fn shown(&self, store: &str, view: View) -> Value {
        match self {
            Self::Kept(memory) => memory.version_shown(store, view),
            Self::Redacted(redacted) => redacted.shown(store),
        }
    }
}

/// A version without its path and its content.
#[derive(Debug, Clone)]
pub(crate) struct Redacted {
    /// Of the memory.
    id: String,
    version: VersionInfo,
    remains: Remains,
    /// Who redacted it, and when.
    redaction: VersionInfo,
}

impl Redacted {
    fn shown(&self, store: &str) -> Value {
        json!({
            "id": version_id(&self.id, self.version.number),
            "type": "memory_version",
            "memory_id": self.id,
            "memory_store_id": store,
            "operation": self.remains.operation,
            "path": null,
            "content": null,
            "content_sha256": null,
            "content_size_bytes": null,
            "created_at": self.version.at.to_string(),
            "created_by": actor(&self.version.by),
            "redacted_at": self.redaction.at.to_string(),
            "redacted_by": actor(&self.redaction.by),
        })
    }
}

/// A memory in one of its versions.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    pub(crate) id: String,
    pub(crate) number: u64,
    pub(crate) at: Timestamp,
    by: Actor,
    kept: Kept,
}

impl Memory {
    pub(crate) fn path(&self) -> &str {
        &self.kept.path
    }

    pub(crate) fn content(&self) -> &str {
        &self.kept.content
    }

    pub(crate) fn operation(&self) -> Operation {
        self.kept.operation
    }

    fn sha256(&self) -> String {
        sha256(&self.kept.content)
    }

    /// Writes it as the API shows a memory.
    pub(crate) fn shown(&self, store: &str, view: View) -> Value {
        json!({
            "id": self.id,
            "type": "memory",
            "memory_store_id": store,
            "memory_version_id": self.version_id(),
            "path": self.kept.path,
            "content": (view == View::Full).then_some(&self.kept.content),
            "content_sha256": self.sha256(),
            "content_size_bytes": self.kept.content.len(),
            "created_at": self.kept.created_at.to_string(),
            "updated_at": self.at.to_string(),
        })
    }

    fn read(id: &str, info: VersionInfo, body: &[u8]) -> Result<Self, Error> {
        let kept = serde_json::from_slice(body).map_err(Error::internal)?;
        let VersionInfo { number, at, by, .. } = info;
        Ok(Self { id: id.to_owned(), number, at, by, kept })
    }

    /// Writes it as the API shows a version.
    fn version_shown(&self, store: &str, view: View) -> Value {
        let content = (self.kept.operation != Operation::Deleted).then_some(&self.kept.content);
        json!({
            "id": self.version_id(),
            "type": "memory_version",
            "memory_id": self.id,
            "memory_store_id": store,
            "operation": self.kept.operation,
            "path": self.kept.path,
            "content": content.filter(|_| view == View::Full),
            "content_sha256": content.map(|content| sha256(content)),
            "content_size_bytes": content.map(|content| content.len()),
            "created_at": self.at.to_string(),
            "created_by": actor(&self.by),
            "redacted_at": null,
            "redacted_by": null,
        })
    }

    fn version_id(&self) -> String {
        version_id(&self.id, self.number)
    }
}

fn version_id(memory: &str, number: u64) -> String {
    format!("memver_{}_{number}", memory.trim_start_matches("mem_"))
}

/// Reads the id of a version: which memory, and which of its versions.
pub(crate) fn version_of(id: &str) -> Option<(String, u64)> {
    let (bare, number) = id.strip_prefix("memver_")?.rsplit_once('_')?;
    Some((format!("mem_{bare}"), number.parse().ok()?))
}

fn actor(by: &Actor) -> Value {
    let id = by.id.as_str();
    match by.kind {
        ActorKind::User => json!({ "type": "user_actor", "user_id": id }),
        ActorKind::Service | ActorKind::Agent | ActorKind::System => {
            json!({ "type": "service_account_actor", "service_account_id": id })
        }
    }
}

fn sha256(content: &str) -> String {
    let printed = Digest::of_bytes(content.as_bytes()).to_string();
    printed.trim_start_matches("sha256:").to_owned()
}

/// Checks a path of a memory.
pub(crate) fn checked_path(path: &str) -> Result<(), Error> {
    let segments: Vec<&str> =
        path.strip_prefix('/').map_or(Vec::new(), |rest| rest.split('/').collect());
    let is_hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{feff}')
    };
    let fits = (1..=SEGMENTS_MAX).contains(&segments.len())
        && path.len() <= PATH_BYTES_MAX
        && !segments.iter().any(|segment| ["", ".", ".."].contains(segment))
        && !path.chars().any(is_hidden);
    match fits {
        true => Ok(()),
        false => Err(Error::invalid(
            "path: expected `/` and 1 to 20 segments, at most 1024 bytes, without empty segments, \
             `.`, `..` and control characters",
        )),
    }
}

fn checked_content(content: &str) -> Result<(), Error> {
    match content.len() <= CONTENT_BYTES_MAX {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "content: expected at most {CONTENT_BYTES_MAX} bytes, found {}",
            content.len()
        ))),
    }
}

/// The memories of one store.
#[derive(Debug)]
pub(crate) struct Memories<'a> {
    pub(crate) store: &'a Store,
    pub(crate) tenant: &'a Tenant,
    /// The id of the memory store.
    pub(crate) of: &'a str,
}

impl Memories<'_> {
    fn space(&self) -> String {
        format!("v1/memory_stores/{}/memories", self.of)
    }

    fn place(&self, memory: &str) -> Result<Place, Error> {
        Ok(Place::new(self.tenant.clone(), &self.space(), memory)?)
    }

    /// Where it is kept which memory has a path; a path may be longer than a key.
    fn path_place(&self, path: &str) -> Result<Place, Error> {
        let space = format!("v1/memory_stores/{}/paths", self.of);
        Ok(Place::new(self.tenant.clone(), &space, &sha256(path))?)
    }

    fn redactions(&self) -> String {
        format!("v1/memory_stores/{}/redactions", self.of)
    }

    fn redaction_place(&self, memory: &str, number: u64) -> Result<Place, Error> {
        let key = version_id(memory, number);
        Ok(Place::new(self.tenant.clone(), &self.redactions(), &key)?)
    }

    /// Reads a version of a memory, also one that says that the memory is gone.
    pub(crate) async fn version(&self, id: &str, which: Which) -> Result<Option<Memory>, Error> {
        let Ok(place) = self.place(id) else { return Ok(None) };
        let Some(version) = self.store.version(&place, which).await? else { return Ok(None) };
        version.body.map(|body| Memory::read(id, version.info, &body)).transpose()
    }

    /// Reads a version for whoever looks at the history, also one that was redacted.
    pub(crate) async fn past(&self, id: &str, number: u64) -> Result<Option<Version>, Error> {
        let Ok(place) = self.place(id) else { return Ok(None) };
        let Some(found) = self.store.version(&place, Which::Number(number)).await? else {
            return Ok(None);
        };
        if let Some(body) = found.body {
            return Ok(Some(Version::Kept(Memory::read(id, found.info, &body)?)));
        }
        let redaction = self.redaction_place(id, number)?;
        let Some(redaction) = self.store.version(&redaction, Which::Latest).await? else {
            return Ok(None);
        };
        let remains = redaction.body.unwrap_or_default();
        let remains = serde_json::from_slice(&remains).map_err(Error::internal)?;
        let (id, version, redaction) = (id.to_owned(), found.info, redaction.info);
        Ok(Some(Version::Redacted(Redacted { id, version, remains, redaction })))
    }

    /// Reads a memory that must be there.
    pub(crate) async fn get(&self, id: &str) -> Result<Memory, Error> {
        let found = self.version(id, Which::Latest).await?;
        let found = found.filter(|memory| memory.operation() != Operation::Deleted);
        found.ok_or_else(|| Error::not_found("memory", id))
    }

    /// Reads the memory that has a path, if one has.
    pub(crate) async fn at(&self, path: &str) -> Result<Option<Memory>, Error> {
        let claimed = self.store.version(&self.path_place(path)?, Which::Latest).await?;
        let Some(id) = claimed.and_then(|claimed| claimed.body) else { return Ok(None) };
        let id = String::from_utf8(id).map_err(Error::internal)?;
        let found = self.version(&id, Which::Latest).await?;
        Ok(found.filter(|memory| memory.operation() != Operation::Deleted))
    }

    /// Reads all memories that are there.
    pub(crate) async fn all(&self) -> Result<Vec<Memory>, Error> {
        let mut all = Vec::new();
        for id in self.ids().await? {
            let found = self.version(&id, Which::Latest).await?;
            all.extend(found.filter(|memory| memory.operation() != Operation::Deleted));
        }
        Ok(all)
    }

    /// Refuses a further memory where there are too many.
    pub(crate) async fn require_room(&self) -> Result<(), Error> {
        match self.ids().await?.len() < MEMORIES_MAX {
            true => Ok(()),
            false => Err(Error::invalid(format!("a store has at most {MEMORIES_MAX} memories"))),
        }
    }

    /// Returns the ids of all memories that there ever were.
    pub(crate) async fn ids(&self) -> Result<BTreeSet<String>, Error> {
        let mut ids = BTreeSet::from_iter(self.keys(&self.space()).await?);
        // One whose last version was redacted has no key with content any more.
        let redacted = self.keys(&self.redactions()).await?;
        ids.extend(redacted.iter().filter_map(|id| Some(version_of(id)?.0)));
        Ok(ids)
    }

    async fn keys(&self, space: &str) -> Result<Vec<String>, Error> {
        let (mut all, limit): (Vec<String>, u32) = (Vec::new(), 500);
        loop {
            let page = Page { after: all.last().cloned(), limit };
            let keys = self.store.keys(self.tenant, space, &page).await?;
            let is_last = keys.len() < limit as usize;
            all.extend(keys.into_iter().map(|(key, _)| key));
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Returns the numbers and times of a memory's versions.
    pub(crate) async fn numbers(&self, id: &str) -> Result<Vec<(u64, Timestamp)>, Error> {
        let (place, mut page, mut numbers) = (self.place(id)?, Page::first(500), Vec::new());
        loop {
            let found = self.store.versions(&place, &page).await?;
            numbers.extend(found.iter().map(|info| (info.number, info.at)));
            match found.last() {
                Some(last) if found.len() == 500 => page = Page::after(last.number, 500),
                _ => return Ok(numbers),
            }
        }
    }

    pub(crate) async fn create(
        &self,
        id: &str,
        path: &str,
        content: String,
        (by, at): (&Actor, Timestamp),
    ) -> Result<Memory, Error> {
        checked_path(path)?;
        checked_content(&content)?;
        let (operation, path) = (Operation::Created, path.to_owned());
        let kept = Kept { operation, path, content, created_at: at };
        let puts = vec![self.claim(&kept.path, id)?, self.written(id, Expected::Absent, &kept)?];
        self.put(puts, by, at).await?;
        Ok(Memory { id: id.to_owned(), number: 1, at, by: by.clone(), kept })
    }

    /// Changes content, path or both of a memory that is still as it was seen.
    pub(crate) async fn change(
        &self,
        seen: Memory,
        path: Option<String>,
        content: Option<String>,
        (by, at): (&Actor, Timestamp),
    ) -> Result<Memory, Error> {
        let path = path.unwrap_or_else(|| seen.kept.path.clone());
        let content = content.unwrap_or_else(|| seen.kept.content.clone());
        checked_path(&path)?;
        checked_content(&content)?;
        let mut puts = Vec::new();
        if path != seen.kept.path {
            puts.push(self.claim(&path, &seen.id)?);
            puts.push(self.freed(&seen.kept.path)?);
        }
        let created_at = seen.kept.created_at;
        let kept = Kept { operation: Operation::Modified, path, content, created_at };
        puts.push(self.written(&seen.id, Expected::Version(seen.number), &kept)?);
        self.put(puts, by, at).await?;
        Ok(Memory { number: seen.number + 1, at, by: by.clone(), kept, ..seen })
    }

    pub(crate) async fn delete(
        &self,
        seen: &Memory,
        (by, at): (&Actor, Timestamp),
    ) -> Result<(), Error> {
        let gone =
            Kept { operation: Operation::Deleted, content: String::new(), ..seen.kept.clone() };
        let expected = Expected::Version(seen.number);
        let puts = vec![self.freed(&seen.kept.path)?, self.written(&seen.id, expected, &gone)?];
        self.put(puts, by, at).await
    }

    /// Erases a version for ever, except for who did what when. That of a memory as it stands has
    /// to make place for another first.
    pub(crate) async fn redact(
        &self,
        id: &str,
        number: u64,
        (by, at): (&Actor, Timestamp),
    ) -> Result<Option<Version>, Error> {
        let found = match self.past(id, number).await? {
            Some(Version::Kept(found)) => found,
            over => return Ok(over),
        };
        let latest = self.version(id, Which::Latest).await?;
        let is_latest = latest.is_some_and(|latest| latest.number == number);
        if is_latest && found.operation() != Operation::Deleted {
            return Err(Error::invalid(format!(
                "`{}` is what the memory holds; change or delete the memory first, then redact it",
                found.version_id()
            )));
        }
        let remains = Remains { operation: found.operation() };
        let body = Some(serde_json::to_vec(&remains).map_err(Error::internal)?);
        let (place, expected) = (self.redaction_place(id, number)?, Expected::Absent);
        let puts = vec![Put { place, expected, body }];
        let versions = Erased::Number(number);
        let erasures = vec![Erasure { place: self.place(id)?, versions }];
        match self.store.erase(erasures, puts, by, at).await {
            // Someone else redacted it meanwhile.
            Ok(_) | Err(PutError::Moved { .. }) => self.past(id, number).await,
            Err(PutError::Store(error)) => Err(error.into()),
        }
    }

    fn claim(&self, path: &str, id: &str) -> Result<Put, Error> {
        let body = Some(id.as_bytes().to_vec());
        Ok(Put { place: self.path_place(path)?, expected: Expected::Absent, body })
    }

    fn freed(&self, path: &str) -> Result<Put, Error> {
        Ok(Put { place: self.path_place(path)?, expected: Expected::Anything, body: None })
    }

    fn written(&self, id: &str, expected: Expected, kept: &Kept) -> Result<Put, Error> {
        let body = serde_json::to_vec(kept).map_err(Error::internal)?;
        Ok(Put { place: self.place(id)?, expected, body: Some(body) })
    }

    async fn put(&self, puts: Vec<Put>, by: &Actor, at: Timestamp) -> Result<(), Error> {
        match self.store.put_versions(puts, by, at).await {
            Ok(_) => Ok(()),
            Err(PutError::Moved { place, .. }) if place.space().ends_with("/paths") => {
                let message = "another memory of this store has this path";
                Err(Error::new(Kind::MemoryPathTaken, message))
            }
            Err(PutError::Moved { .. }) => Err(moved()),
            Err(PutError::Store(error)) => Err(error.into()),
        }
    }
}

/// A memory is not as its writer saw it.
pub(crate) fn moved() -> Error {
    let message = "the memory was changed since it was read; read it again and decide again";
    Error::new(Kind::MemoryMoved, message)
}

/// Refuses a change of a memory that is not as its writer saw it.
pub(crate) fn require_content(memory: &Memory, seen: Option<&str>) -> Result<(), Error> {
    match seen {
        Some(seen) if memory.sha256() != seen => Err(moved()),
        _ => Ok(()),
    }
}
