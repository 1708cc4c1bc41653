//! What is kept beside the sessions: artifacts by content, immutable versions, searchable text.

use haft_core::{Actor, ArtifactId, ArtifactRef, Digest, SessionId, Timestamp};

use crate::error::{Error, ErrorKind};
use crate::key::number;
use crate::name::{Tenant, checked};

/// An artifact to keep. Its bytes are stored once, however many artifacts have them.
#[derive(Debug, Clone)]
pub struct NewArtifact {
    /// What events say about it; `bytes` is what the store counts.
    pub reference: ArtifactRef,
    /// Whose it is.
    pub tenant: Tenant,
    /// The session that made it, if one did.
    pub session: Option<SessionId>,
    /// When.
    pub at: Timestamp,
}

/// An artifact as read, with bytes that match its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredArtifact {
    /// What events say about it.
    pub reference: ArtifactRef,
    /// The session that made it, if one did.
    pub session: Option<SessionId>,
    /// The hash of its bytes.
    pub digest: Digest,
    /// When it was kept.
    pub at: Timestamp,
    /// The bytes.
    pub body: Vec<u8>,
}

/// Why an artifact was not kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArtifactError {
    /// The id stands for something else already.
    #[error("artifact `{id}` exists with other content")]
    Taken {
        /// The id.
        id: ArtifactId,
    },
    /// The store has trouble.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Where versions and documents live: a key in a space of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    tenant: Tenant,
    space: String,
    key: String,
}

impl Place {
    /// Names a place.
    ///
    /// # Errors
    ///
    /// When space or key is empty, longer than 200 characters or holds control characters.
    pub fn new(tenant: Tenant, space: &str, key: &str) -> Result<Self, Error> {
        let invalid = |error: crate::TextError| Error::new(ErrorKind::Invalid, error.to_string());
        checked("space", space).map_err(invalid)?;
        checked("key", key).map_err(invalid)?;
        Ok(Self { tenant, space: space.to_owned(), key: key.to_owned() })
    }

    /// Returns whose it is.
    pub const fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Returns the space, such as one memory store.
    pub fn space(&self) -> &str {
        &self.space
    }

    /// Returns the key within the space.
    pub fn key(&self) -> &str {
        &self.key
    }
}

/// A version to write, if the place is still as the writer saw it.
#[derive(Debug, Clone)]
pub struct Put {
    /// Where.
    pub place: Place,
    /// What the writer saw there.
    pub expected: Expected,
    /// The content; `None` writes a version that says that it is gone.
    pub body: Option<Vec<u8>>,
}

impl Put {
    /// Returns the number of the version to write, given the latest one and the puts that come
    /// before this one in the same step.
    pub(crate) fn next_number(
        &self,
        latest: Option<Latest>,
        before: &[Self],
    ) -> Result<u64, PutError> {
        let current = latest.map_or(0, |latest| latest.number);
        if !self.expected.holds(latest) {
            return Err(PutError::Moved { place: self.place.clone(), current });
        }
        let n_before = before.iter().filter(|other| other.place == self.place).count();
        Ok(current + 1 + n_before as u64)
    }
}

/// What a writer expects to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// No version at all, or one that says that the content is gone, or whose content was erased.
    Absent,
    /// Whatever there is.
    Anything,
    /// This version as the latest.
    Version(u64),
}

impl Expected {
    /// Whether the writer's picture of the place is right.
    pub(crate) fn holds(self, latest: Option<Latest>) -> bool {
        match self {
            Self::Absent => latest.is_none_or(|latest| latest.is_gone),
            Self::Anything => true,
            Self::Version(number) => latest.is_some_and(|latest| latest.number == number),
        }
    }
}

/// The latest version of a place, as far as a writer's expectation is concerned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Latest {
    pub(crate) number: u64,
    pub(crate) is_gone: bool,
}

/// Versions that lose their content for ever.
#[derive(Debug, Clone)]
pub struct Erasure {
    /// Where.
    pub place: Place,
    /// Which of those there.
    pub versions: Erased,
}

/// Which versions of a place are erased. Those that are not there, or erased already, are no error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Erased {
    /// All but the latest, which may be one that is written in the same step.
    Earlier,
    /// The one with this number, the latest too.
    Number(u64),
}

impl Erased {
    /// Returns the first number, and the last if it is not the one before the latest.
    pub(crate) fn range(self) -> (i64, Option<i64>) {
        match self {
            Self::Earlier => (0, None),
            Self::Number(wanted) => (number(wanted), Some(number(wanted))),
        }
    }
}

/// Why nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PutError {
    /// A place is not as its writer saw it: read again and decide again.
    #[error("`{}` in `{}` is at version {current}, not as expected", place.key(), place.space())]
    Moved {
        /// The place.
        place: Place,
        /// Its latest version; 0 when there is none.
        current: u64,
    },
    /// The store has trouble.
    #[error(transparent)]
    Store(#[from] Error),
}

/// What is known about a version without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionInfo {
    /// Its number at its place, from 1.
    pub number: u64,
    /// The hash of its content; `None` when it says that the content is gone, or was erased.
    pub digest: Option<Digest>,
    /// Who wrote it.
    pub by: Actor,
    /// When.
    pub at: Timestamp,
}

/// A version with its content, which matches its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredVersion {
    /// What is known about it.
    pub info: VersionInfo,
    /// The content; `None` when the version says that it is gone, or was erased.
    pub body: Option<Vec<u8>>,
}

/// Which version of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The latest.
    Latest,
    /// The one with this number.
    Number(u64),
}

/// A text that can be found by its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Where it is; a document indexed at the same place takes this one's place.
    pub place: Place,
    /// Its title, which counts for more.
    pub title: String,
    /// Its text.
    pub body: String,
    /// When.
    pub at: Timestamp,
}

/// Words to look for, all of which must occur; letter case and accents of ASCII do not matter.
#[derive(Debug, Clone)]
pub struct Query {
    /// Whose documents.
    pub tenant: Tenant,
    /// Only in this space.
    pub space: Option<String>,
    /// The words; everything that is neither letter nor digit separates them.
    pub words: String,
    /// How many at most.
    pub limit: u32,
}

impl Query {
    /// Returns the words. Both databases get the same ones and no syntax of their own, so that a
    /// query means the same everywhere and cannot be malformed.
    pub(crate) fn terms(&self) -> Vec<String> {
        let terms =
            self.words.split(|c: char| !c.is_alphanumeric()).filter(|term| !term.is_empty());
        terms.take(32).map(str::to_lowercase).collect()
    }
}

/// A document that was found; the best come first.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// Where it is.
    pub place: Place,
    /// Its title.
    pub title: String,
    /// The part of its text around the words.
    pub snippet: String,
}

/// Checks what was read against the hash it was kept by.
pub(crate) fn matching(digest: Digest, body: Vec<u8>) -> Result<Vec<u8>, Error> {
    if Digest::of_bytes(&body) == digest {
        return Ok(body);
    }
    Err(Error::corrupt(format!("the content kept as {digest} does not match its hash")))
}

/// What is said of a version that gives power and that nobody is recorded to have given.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) fn unrecorded(place: &Place) -> Error {
    let (tenant, space, key) = (place.tenant(), place.space(), place.key());
    Error::corrupt(format!(
        "the latest version of `{key}` in `{space}` of `{tenant}` is not in the record of \
         authority, or not as it was recorded; it is not obeyed: run `haft audit verify`"
    ))
}

/// PostgreSQL keeps no NUL in text, and nobody searches for one.
pub(crate) fn without_nul(text: &str) -> String {
    text.replace('\0', " ")
}
