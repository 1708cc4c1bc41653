//! Shared files: drafts of them in a session's workspace, and their versions.
//!
//! A version is written first, in one step with the look at the one before, so that of two who
//! promote only one goes on. The file follows, onto the content that was seen. If it was changed
//! by other hands meanwhile, what it holds becomes a version too, and nobody's work is lost.

use std::collections::BTreeMap;

use haft_core::{Actor, SessionId, Timestamp};
use haft_runtime::{ToolContext, ToolError};
use haft_sandbox::files::{ContentHash, Expected, FileError};
use haft_store::{Expected as ExpectedVersion, Page, Place, Put, PutError, Store, Tenant, Which};
use serde::{Deserialize, Serialize};

use crate::memory::{Body, Kept, Mode, content_hash, moved, put, short, version_id, versioned};
use crate::sight::Viewer;
use crate::substrate::Substrate;
use crate::tools::apart;

const SPACE: &str = "staged-drafts";

/// A draft of a shared file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Draft {
    pub(crate) substrate_path: String,
    pub(crate) staged_at: Timestamp,
    pub(crate) source_hash: String,
}

/// The drafts of a session, by where they are.
pub(crate) type Drafts = BTreeMap<String, Draft>;

fn drafts_place(viewer: &Viewer) -> Result<Place, ToolError> {
    Ok(Place::new(viewer.own.tenant.clone(), SPACE, &viewer.own.session.to_string())?)
}

pub(crate) async fn drafts(viewer: &Viewer) -> Result<Drafts, ToolError> {
    let stored = viewer.store().version(&drafts_place(viewer)?, Which::Latest).await?;
    let body = stored.and_then(|stored| stored.body).unwrap_or_default();
    Ok(serde_json::from_slice(&body).unwrap_or_default())
}

pub(crate) async fn keep_drafts(
    viewer: &Viewer,
    drafts: &Drafts,
    at: Timestamp,
) -> Result<(), ToolError> {
    let body = serde_json::to_vec(drafts).unwrap_or_default();
    let place = drafts_place(viewer)?;
    let put = Put { place, expected: ExpectedVersion::Anything, body: Some(body) };
    viewer.store().put_versions(vec![put], &Actor::system(), at).await?;
    Ok(())
}

/// The versions of an agent's shared files.
pub(crate) struct Shelf<'a> {
    store: &'a Store,
    tenant: &'a Tenant,
    agent: &'a str,
    session: SessionId,
    context: &'a ToolContext,
    pub(crate) substrate: Substrate,
}

/// What the writer of a shared file saw of it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Seen {
    pub(crate) expected_version_id: Option<String>,
    pub(crate) expected_content_hash: Option<String>,
}

/// A shared file as it is.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) content: Option<Vec<u8>>,
    pub(crate) latest: Option<Kept>,
}

impl Shared {
    pub(crate) fn hash(&self) -> Option<String> {
        self.content.as_deref().map(content_hash)
    }
}

impl<'a> Shelf<'a> {
    pub(crate) fn new(viewer: &'a Viewer, context: &'a ToolContext, substrate: Substrate) -> Self {
        Self {
            store: viewer.store(),
            tenant: &viewer.own.tenant,
            agent: viewer.agent(),
            session: viewer.own.session,
            context,
            substrate,
        }
    }

    fn place(&self, key: &str) -> Result<Place, ToolError> {
        let space = format!("substrate/{}", short(self.agent));
        Ok(Place::new(self.tenant.clone(), &space, &short(key))?)
    }

    /// The file and its latest version. What an interrupted writer left undone is done, and what
    /// other hands wrote becomes a version.
    pub(crate) async fn shared(&self, key: &str) -> Result<Shared, ToolError> {
        let place = self.place(key)?;
        let mut latest = versioned(self.store, &place, Which::Latest).await?;
        let content = self.read(key).await?;
        if let Some(kept) = &latest
            && content.as_deref() != Some(kept.content.as_bytes())
        {
            let before = match kept.number.checked_sub(1).filter(|number| *number > 0) {
                Some(number) => versioned(self.store, &place, Which::Number(number)).await?,
                None => None,
            };
            let unfinished = before.map(|before| before.content.into_bytes()) == content;
            if unfinished && kept.body.source != "found" {
                self.lay_down(key, kept.content.as_bytes(), content.as_deref()).await?;
                return Ok(Shared { content: Some(kept.content.clone().into_bytes()), latest });
            }
            latest = Some(self.note_found(key, kept.number, content.as_deref()).await?);
        }
        Ok(Shared { content, latest })
    }

    async fn read(&self, key: &str) -> Result<Option<Vec<u8>>, ToolError> {
        let (substrate, key) = (self.substrate.clone(), key.to_owned());
        apart(move || Ok(substrate.read(&key)?)).await
    }

    async fn lay_down(
        &self,
        key: &str,
        content: &[u8],
        before: Option<&[u8]>,
    ) -> Result<(), ToolError> {
        let expected =
            before.map_or(Expected::Absent, |before| Expected::Content(ContentHash::of(before)));
        let (substrate, key, content) = (self.substrate.clone(), key.to_owned(), content.to_vec());
        apart(move || match substrate.write(&key, &content, expected) {
            // Whoever looked meanwhile has done it already.
            Err(FileError::Changed { .. } | FileError::Exists { .. })
                if substrate.read(&key)?.as_deref() == Some(&content) =>
            {
                Ok(())
            }
            written => Ok(written?),
        })
        .await
    }

    /// What other hands wrote, as the next version.
    async fn note_found(
        &self,
        key: &str,
        previous: u64,
        content: Option<&[u8]>,
    ) -> Result<Kept, ToolError> {
        let text = String::from_utf8_lossy(content.unwrap_or_default()).into_owned();
        // No call wrote it, so that none takes it for its own work.
        let body = Body { call_id: String::new(), ..self.body(text, "found") };
        let place = self.place(key)?;
        let (by, at) = (Actor::system(), self.context.now());
        match put(self.store, &place, Some(previous), &body, &by, at).await {
            Ok(number) => Ok(Kept { number, content: body.content.clone(), body, at, by }),
            Err(PutError::Moved { .. }) => {
                Err(ToolError::upstream("someone promotes this file right now; try again"))
            }
            Err(PutError::Store(error)) => Err(error.into()),
        }
    }

    fn body(&self, content: String, source: &str) -> Body {
        Body {
            content,
            session_id: self.session.to_string(),
            call_id: self.context.call().to_string(),
            source: source.to_owned(),
            mode: Mode::Replace,
            wake_id: None,
        }
    }

    /// Writes a shared file, if it is as the writer saw it: in one step with the look at it.
    pub(crate) async fn write(
        &self,
        key: &str,
        content: String,
        source: &str,
        seen: &Seen,
    ) -> Result<(Kept, Option<u64>), ToolError> {
        let shared = self.shared(key).await?;
        let previous = shared.latest.as_ref().map(|kept| kept.number);
        let call = self.context.call().to_string();
        if let Some(done) = shared.latest.as_ref().filter(|kept| kept.body.call_id == call) {
            let before = done.number.checked_sub(1).filter(|before| *before > 0);
            return Ok((done.clone(), before));
        }
        let current = previous.map(|number| version_id(key, number));
        if seen.expected_version_id.is_some() && seen.expected_version_id != current {
            return Err(moved(key, seen.expected_version_id.as_deref(), current.as_deref()));
        }
        let hash = shared.hash();
        if seen.expected_content_hash.is_some() && seen.expected_content_hash != hash {
            return Err(moved(key, seen.expected_content_hash.as_deref(), hash.as_deref()));
        }
        let body = self.body(content, source);
        let (place, at) = (self.place(key)?, self.context.now());
        let by = self.context.actor().clone();
        let number = match put(self.store, &place, previous, &body, &by, at).await {
            Ok(number) => number,
            Err(PutError::Moved { current, .. }) => {
                let found = version_id(key, current);
                let expected = previous.map(|number| version_id(key, number));
                return Err(moved(key, expected.as_deref(), Some(&found)));
            }
            Err(PutError::Store(error)) => return Err(error.into()),
        };
        self.lay_down(key, body.content.as_bytes(), shared.content.as_deref()).await.map_err(
            |error| {
                let message = error.to_string();
                ToolError::new(format!("`{key}` was changed by other hands meanwhile: {message}"))
            },
        )?;
        Ok((Kept { number, content: body.content.clone(), body, at, by }, previous))
    }

    pub(crate) async fn versions(&self, key: &str, limit: u32) -> Result<Vec<Kept>, ToolError> {
        let place = self.place(key)?;
        let mut kept = Vec::new();
        for info in self.store.versions(&place, &Page::first(limit)).await? {
            kept.extend(versioned(self.store, &place, Which::Number(info.number)).await?);
        }
        Ok(kept)
    }

    /// A version by its id, and the path of its file.
    pub(crate) async fn version(&self, id: &str) -> Result<(String, Kept), ToolError> {
        let named = id.rsplit_once('@').and_then(|(key, number)| Some((key, number.parse().ok()?)));
        let found = match named {
            Some((key, number)) => {
                let place = self.place(&self.substrate.key(key)?)?;
                let kept = versioned(self.store, &place, Which::Number(number)).await?;
                kept.map(|kept| (key.to_owned(), kept))
            }
            None => None,
        };
        found.ok_or_else(|| {
            let id: String = id.chars().take(200).collect();
            ToolError::invalid(format!(
                "no shared file has a version `{id}`; `resources_list_versions` lists them"
            ))
        })
    }
}

/// Why a draft could not be read as a file of text.
pub(crate) fn not_text(path: &str) -> ToolError {
    ToolError::invalid(format!("`{path}` is not text; only text is shared"))
}

/// Whether a read found nothing.
pub(crate) fn absent(read: Result<Vec<u8>, FileError>) -> Result<Option<Vec<u8>>, FileError> {
    match read {
        Ok(content) => Ok(Some(content)),
        Err(FileError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
