//! Outputs kept outside the log: keeping them, and reading a piece of one.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use haft_core::json::{self, JsonLimits};
use haft_core::{ArtifactId, ArtifactRef, JsonPointer, SessionId};
use haft_store::{NewArtifact, Store, StoredArtifact, Tenant};
use serde_json::Value;

use crate::clock::Clock;
use crate::fresh::fresh_bits;

/// The largest artifact that is read as JSON: a document takes several times its text in memory.
const DOCUMENT_BYTES_MAX: usize = 16 << 20;
/// How many documents are remembered. An artifact never changes, and a call that points at one is
/// previewed, run and tried again.
const REMEMBERED: usize = 8;
/// The largest that is.
const REMEMBERED_BYTES_MAX: usize = 512 << 10;

/// Where outputs are kept. A runtime without a store keeps none, and says so.
#[derive(Clone)]
pub struct Artifacts {
    store: Option<Store>,
    clock: Clock,
    remembered: Arc<Mutex<VecDeque<Document>>>,
}

/// A JSON artifact that was read.
struct Document {
    session: SessionId,
    id: ArtifactId,
    value: Arc<Value>,
}

/// The lines of an artifact that were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// The number of the first line, from 1.
    pub first_line: u64,
    /// How many lines the artifact has.
    pub n_lines: u64,
    /// The lines, without their ends.
    pub lines: Vec<String>,
}

/// A line that holds what was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its number, from 1.
    pub line: u64,
    /// The line, without its end.
    pub text: String,
}

/// Why an artifact was not kept or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArtifactsError {
    /// There is no store.
    #[error("this runtime has no store, so no output is kept; give it one to keep large outputs")]
    NoStore,
    /// There is none of that id within reach.
    #[error("no artifact `{id}` belongs to this session; use an id from one of its results")]
    Unknown {
        /// The id.
        id: ArtifactId,
    },
    /// It is no JSON, so nothing can be pointed at within it.
    #[error("artifact `{id}` is not JSON, so `{pointer}` points at nothing: {found}")]
    NotJson {
        /// The artifact.
        id: ArtifactId,
        /// What was asked for.
        pointer: JsonPointer,
        /// What the reader found.
        found: String,
    },
    /// More are pointed at than are looked up for one call.
    #[error(
        "expected at most {max} references to artifacts, found {found}; point at a larger part"
    )]
    TooMany {
        /// How many.
        found: usize,
        /// How many at most.
        max: usize,
    },
    /// It is too large to be read as JSON.
    #[error("artifact `{id}` has {found} bytes; only in one of at most {max} can be pointed")]
    TooLarge {
        /// The artifact.
        id: ArtifactId,
        /// Its size.
        found: usize,
        /// The limit.
        max: usize,
    },
    /// What is pointed at is too large together.
    #[error("expected references to at most {max} bytes together, found more; point at less")]
    TooMuch {
        /// The limit.
        max: usize,
    },
    /// Nothing is there.
    #[error("artifact `{id}` has nothing at `{pointer}`")]
    NothingThere {
        /// The artifact.
        id: ArtifactId,
        /// What was asked for.
        pointer: JsonPointer,
    },
    /// The store has trouble.
    #[error("{message}")]
    Store {
        /// What it says.
        message: String,
    },
}

#[haft_macros::boxed]
impl Artifacts {
    /// Keeps artifacts in a store.
    pub(crate) fn new(store: Option<Store>, clock: Clock) -> Self {
        Self { store, clock, remembered: Arc::default() }
    }

    /// Keeps an output of a session.
    ///
    /// # Errors
    ///
    /// When there is no store, or it cannot keep it.
    pub async fn keep(
        &self,
        session: SessionId,
        title: &str,
        media_type: &str,
        bytes: Vec<u8>,
    ) -> Result<ArtifactRef, ArtifactsError> {
        let store = self.store()?;
        let at = self.clock.now();
        let id = ArtifactId::from_bits(fresh_bits(at).map_err(trouble)?);
        let reference = ArtifactRef {
            id,
            media_type: media_type.to_owned(),
            bytes: bytes.len() as u64,
            title: Some(title.to_owned()),
        };
        let tenant = tenant_of(store, session, id).await?;
        let new = NewArtifact { reference: reference.clone(), tenant, session: Some(session), at };
        store.put_artifact(&new, bytes).await.map_err(trouble)?;
        Ok(reference)
    }

    /// Reads an artifact of a session. Another session's is as unknown as one that never was.
    ///
    /// # Errors
    ///
    /// When there is none, or it cannot be read.
    pub async fn read(
        &self,
        session: SessionId,
        id: ArtifactId,
    ) -> Result<StoredArtifact, ArtifactsError> {
        let store = self.store()?;
        let tenant = tenant_of(store, session, id).await?;
        let found = store.artifact(&tenant, id).await.map_err(trouble)?;
        found
            .filter(|artifact| artifact.session == Some(session))
            .ok_or(ArtifactsError::Unknown { id })
    }

    /// Reads some lines.
    ///
    /// # Errors
    ///
    /// As [`Artifacts::read`].
    pub async fn slice(
        &self,
        session: SessionId,
        id: ArtifactId,
        first_line: u64,
        lines_max: u64,
    ) -> Result<Slice, ArtifactsError> {
        let artifact = self.read(session, id).await?;
        let text = String::from_utf8_lossy(&artifact.body);
        let first_line = first_line.max(1);
        let skipped = usize::try_from(first_line - 1).unwrap_or(usize::MAX);
        let taken = usize::try_from(lines_max).unwrap_or(usize::MAX);
        let lines = text.lines().skip(skipped).take(taken).map(str::to_owned).collect();
        Ok(Slice { first_line, n_lines: text.lines().count() as u64, lines })
    }

    /// Finds the lines that hold a text, as it is written.
    ///
    /// # Errors
    ///
    /// As [`Artifacts::read`].
    pub async fn grep(
        &self,
        session: SessionId,
        id: ArtifactId,
        needle: &str,
        found_max: usize,
    ) -> Result<Vec<Found>, ArtifactsError> {
        let artifact = self.read(session, id).await?;
        let text = String::from_utf8_lossy(&artifact.body);
        let numbered = (1..).zip(text.lines()).filter(|(_, line)| line.contains(needle));
        let found = numbered.map(|(line, text)| Found { line, text: text.to_owned() });
        Ok(found.take(found_max).collect())
    }

    /// Reads what stands at a place of a JSON artifact.
    ///
    /// # Errors
    ///
    /// As [`Artifacts::read`], and when it is no JSON or nothing is there.
    pub async fn pointed(
        &self,
        session: SessionId,
        id: ArtifactId,
        pointer: &JsonPointer,
    ) -> Result<Value, ArtifactsError> {
        let document = self.document(session, id, pointer).await?;
        let found = document.pointer(pointer.as_str()).cloned();
        found.ok_or_else(|| ArtifactsError::NothingThere { id, pointer: pointer.clone() })
    }

    /// Reads a JSON artifact as a whole; `pointer` is what it is read for.
    pub(crate) async fn document(
        &self,
        session: SessionId,
        id: ArtifactId,
        pointer: &JsonPointer,
    ) -> Result<Arc<Value>, ArtifactsError> {
        let is_it = |known: &&Document| (known.session, known.id) == (session, id);
        if let Some(known) = self.remembered().iter().find(is_it) {
            return Ok(Arc::clone(&known.value));
        }
        let body = self.read(session, id).await?.body;
        if body.len() > DOCUMENT_BYTES_MAX {
            let (found, max) = (body.len(), DOCUMENT_BYTES_MAX);
            return Err(ArtifactsError::TooLarge { id, found, max });
        }
        let limits = JsonLimits { bytes_max: DOCUMENT_BYTES_MAX, ..JsonLimits::default() };
        let value = json::parse(&body, limits).map_err(|error| ArtifactsError::NotJson {
            id,
            pointer: pointer.clone(),
            found: error.to_string(),
        })?;
        let value = Arc::new(value);
        if body.len() <= REMEMBERED_BYTES_MAX {
            let mut remembered = self.remembered();
            remembered.truncate(REMEMBERED - 1);
            remembered.push_front(Document { session, id, value: Arc::clone(&value) });
        }
        Ok(value)
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, VecDeque<Document>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn store(&self) -> Result<&Store, ArtifactsError> {
        self.store.as_ref().ok_or(ArtifactsError::NoStore)
    }
}

async fn tenant_of(
    store: &Store,
    session: SessionId,
    id: ArtifactId,
) -> Result<Tenant, ArtifactsError> {
    let loaded = store.load(session).await.map_err(trouble)?;
    Ok(loaded.ok_or(ArtifactsError::Unknown { id })?.tenant)
}

fn trouble(error: impl fmt::Display) -> ArtifactsError {
    ArtifactsError::Store { message: error.to_string() }
}

impl fmt::Debug for Artifacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = if self.store.is_some() { "in a store" } else { "nowhere" };
        f.debug_struct("Artifacts").field("kept", &kept).finish_non_exhaustive()
    }
}
