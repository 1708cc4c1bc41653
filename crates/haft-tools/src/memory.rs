//! What sessions and agents keep for later: each store a row of immutable versions.

use haft_core::{Actor, Digest, SessionId, Timestamp};
use haft_runtime::ToolError;
use haft_store::{Expected, Page, Place, Put, PutError, Store, Tenant, VersionInfo, Which};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How often a write that met another one is worked out again.
const TRIES: usize = 16;
const PREVIEW_CHARS: usize = 160;

/// The stores of document 002.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    Checkpoint,
    ShellState,
    SessionState,
    WorkingBuffer,
    WorkspaceMemory,
    WorkspaceMemoryNotes,
}

impl Target {
    pub(crate) const ALL: [Self; 6] = [
        Self::Checkpoint,
        Self::ShellState,
        Self::SessionState,
        Self::WorkingBuffer,
        Self::WorkspaceMemory,
        Self::WorkspaceMemoryNotes,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Checkpoint => "checkpoint",
            Self::ShellState => "shell_state",
            Self::SessionState => "session_state",
            Self::WorkingBuffer => "working_buffer",
            Self::WorkspaceMemory => "workspace_memory",
            Self::WorkspaceMemoryNotes => "workspace_memory_notes",
        }
    }
}

/// How new content is put to what is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    Append,
    #[default]
    Replace,
}

/// A version as it is stored: the content, and what was going on when it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Body {
    pub(crate) content: String,
    pub(crate) session_id: String,
    /// The call that wrote it: the same call again changes nothing.
    pub(crate) call_id: String,
    pub(crate) source: String,
    pub(crate) mode: Mode,
    pub(crate) wake_id: Option<String>,
}

/// A version as read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) number: u64,
    pub(crate) content: String,
    pub(crate) body: Body,
    pub(crate) at: Timestamp,
    pub(crate) by: Actor,
}

/// What is to be written.
#[derive(Debug, Clone)]
pub(crate) struct Writing {
    pub(crate) body: Body,
    /// The version that the writer saw, when that matters to it.
    pub(crate) expected: Option<String>,
    pub(crate) by: Actor,
    pub(crate) at: Timestamp,
}

/// A version that was written.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    pub(crate) kept: Kept,
    pub(crate) previous: Option<u64>,
}

/// The stores of a session and its agent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory<'a> {
    pub(crate) store: &'a Store,
    pub(crate) tenant: &'a Tenant,
    pub(crate) agent: &'a str,
    pub(crate) session: SessionId,
}

impl Memory<'_> {
    fn place(&self, target: Target) -> Result<Place, ToolError> {
        let session = || format!("{}/{}", self.session, target.name());
        let (space, key) = match target {
            Target::SessionState | Target::WorkingBuffer => ("session-memory", session()),
            Target::WorkspaceMemoryNotes => ("agent-notes", short(self.agent)),
            Target::Checkpoint | Target::ShellState | Target::WorkspaceMemory => {
                let message = format!("`{}` has no versions of its own", target.name());
                return Err(ToolError::invalid(message));
            }
        };
        Ok(Place::new(self.tenant.clone(), space, &key)?)
    }

    pub(crate) async fn latest(&self, target: Target) -> Result<Option<Kept>, ToolError> {
        versioned(self.store, &self.place(target)?, Which::Latest).await
    }

    /// A version by its id.
    pub(crate) async fn version(&self, target: Target, id: &str) -> Result<Kept, ToolError> {
        let number = id.strip_prefix(target.name()).and_then(|rest| rest.strip_prefix('@'));
        let number = number.and_then(|number| number.parse().ok());
        let found = match number {
            Some(number) => {
                versioned(self.store, &self.place(target)?, Which::Number(number)).await?
            }
            None => None,
        };
        found.ok_or_else(|| {
            ToolError::invalid(format!(
                "`{}` has no version `{id}`; `memory_list_versions` lists them",
                target.name()
            ))
        })
    }

    /// The versions, newest first.
    pub(crate) async fn versions(
        &self,
        target: Target,
        limit: u32,
    ) -> Result<Vec<Kept>, ToolError> {
        let place = self.place(target)?;
        let infos = self.store.versions(&place, &Page::first(limit)).await?;
        let mut kept = Vec::with_capacity(infos.len());
        for VersionInfo { number, .. } in infos {
            kept.extend(versioned(self.store, &place, Which::Number(number)).await?);
        }
        Ok(kept)
    }

    /// Writes a version, if the store is as the writer saw it.
    pub(crate) async fn write(
        &self,
        target: Target,
        writing: &Writing,
    ) -> Result<Written, ToolError> {
        let place = self.place(target)?;
        for _ in 0..TRIES {
            let latest = versioned(self.store, &place, Which::Latest).await?;
            let previous = latest.as_ref().map(|latest| latest.number);
            if let Some(done) =
                latest.as_ref().filter(|kept| kept.body.call_id == writing.body.call_id)
            {
                let previous = done.number.checked_sub(1).filter(|before| *before > 0);
                return Ok(Written { kept: done.clone(), previous });
            }
            let current = previous.map(|number| version_id(target.name(), number));
            if writing.expected.is_some() && writing.expected != current {
                return Err(moved(target.name(), writing.expected.as_deref(), current.as_deref()));
            }
            let body =
                Body { content: joined(latest.as_ref(), &writing.body), ..writing.body.clone() };
            match put(self.store, &place, previous, &body, &writing.by, writing.at).await {
                Ok(number) => {
                    let (content, by, at) = (body.content.clone(), writing.by.clone(), writing.at);
                    return Ok(Written { kept: Kept { number, content, body, at, by }, previous });
                }
                Err(PutError::Moved { .. }) => {}
                Err(PutError::Store(error)) => return Err(error.into()),
            }
        }
        Err(ToolError::upstream("others write to this memory all the time; try again"))
    }
}

fn joined(latest: Option<&Kept>, new: &Body) -> String {
    match (new.mode, latest) {
        (Mode::Append, Some(latest)) if !latest.content.is_empty() => {
            format!("{}\n{}", latest.content.trim_end_matches('\n'), new.content)
        }
        _ => new.content.clone(),
    }
}

/// Reads a version; one whose content is gone, or that something else wrote there, is none.
pub(crate) async fn versioned(
    store: &Store,
    place: &Place,
    which: Which,
) -> Result<Option<Kept>, ToolError> {
    let Some(found) = store.version(place, which).await? else { return Ok(None) };
    let Some(body) = found.body.and_then(|body| serde_json::from_slice::<Body>(&body).ok()) else {
        return Ok(None);
    };
    let VersionInfo { number, by, at, .. } = found.info;
    Ok(Some(Kept { number, content: body.content.clone(), body, at, by }))
}

/// Writes a version where the writer found `previous`: in one step with the look at it.
pub(crate) async fn put(
    store: &Store,
    place: &Place,
    previous: Option<u64>,
    body: &Body,
    by: &Actor,
    at: Timestamp,
) -> Result<u64, PutError> {
    let expected = previous.map_or(Expected::Absent, Expected::Version);
    let body = serde_json::to_vec(body).unwrap_or_default();
    let put = Put { place: place.clone(), expected, body: Some(body) };
    let numbers = store.put_versions(vec![put], by, at).await?;
    Ok(numbers.first().copied().unwrap_or_default())
}

pub(crate) fn moved(what: &str, expected: Option<&str>, found: Option<&str>) -> ToolError {
    let words = |version: Option<&str>| match version {
        Some(version) => format!("`{version}`"),
        None => "no version".to_owned(),
    };
    ToolError::new(format!(
        "`{what}` is at {}, not at {}: someone wrote meanwhile; read it again and decide again",
        words(found),
        words(expected)
    ))
}

/// Names a version of something.
pub(crate) fn version_id(of: &str, number: u64) -> String {
    format!("{of}@{number}")
}

/// A name that fits where names are bounded.
pub(crate) fn short(name: &str) -> String {
    match name.chars().count() {
        ..=150 => name.to_owned(),
        _ => Digest::of_bytes(name.as_bytes()).to_string(),
    }
}

impl Kept {
    pub(crate) fn content_hash(&self) -> String {
        content_hash(self.content.as_bytes())
    }

    /// What is told of a version without its whole content.
    pub(crate) fn record(&self, of: &str, agent: &str) -> Value {
        let preview: String = self.content.chars().take(PREVIEW_CHARS).collect();
        json!({
            "versionId": version_id(of, self.number),
            "agentId": agent,
            "sessionId": self.body.session_id,
            "target": of,
            "createdAt": self.at.to_string(),
            "by": self.by,
            "source": self.body.source,
            "mode": self.body.mode,
            "contentHash": self.content_hash(),
            "sizeBytes": self.content.len(),
            "wakeId": self.body.wake_id,
            "preview": preview,
        })
    }
}

/// The SHA-256 of a content, as 64 hexadecimal digits.
pub(crate) fn content_hash(content: &[u8]) -> String {
    haft_sandbox::files::ContentHash::of(content).to_string()
}
