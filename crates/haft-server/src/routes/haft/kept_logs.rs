//! Sessions as files to keep, and what is kept of those that were deleted.

use std::collections::VecDeque;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream;
use haft_core::SessionId;
use haft_core::journal::{Entry, Head};
use haft_store::{ErasedSession, Page, VerifyError};
use serde_json::{Value, json};

use super::found::Found;
use crate::app::App;
use crate::caller::Caller;
use crate::erasing::{self, DeletionState};
use crate::error::{Error, Kind};
use crate::input::{Params, Path};
use crate::keys::Scope;

/// How many entries are read at once.
const PAGE: u32 = 512;

/// Deletes a session with all that belong to it: what was said and done in it is erased.
pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(session): Path<String>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let found = Found::session(&app, &caller, &session).await?;
    if !caller.may_change(&found.owner(&app).await?) {
        let message = "only whoever opened this session may delete it, or an admin";
        return Err(Error::new(Kind::Permission, message));
    }
    let deleted = erasing::delete(&app, &caller.tenant, found.id, &caller.actor).await?;
    let state = match deleted {
        DeletionState::Erased => "erased",
        DeletionState::Stopping => "stopping",
    };
    Ok(Json(json!({ "session": found.id, "state": state })))
}

/// Gives a session whole, one JSON object a line: the log of the session and of all that belong to
/// it with their hashes, and the artifacts that they made.
pub(super) async fn export(
    State(app): State<App>,
    caller: Caller,
    Path(session): Path<String>,
    params: Params,
) -> Result<impl IntoResponse, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    let found = Found::session(&app, &caller, &session).await?;
    let mut sessions = VecDeque::from([found.id]);
    sessions.extend(app.haft().belonging(found.id).await?);
    let export = Export { app, caller, sessions, head: Head::EMPTY, begun: false };
    let lines = stream::try_unfold(export, |mut export| async {
        let lines = export.next().await.map_err(std::io::Error::other)?;
        Ok::<_, std::io::Error>(lines.map(|lines| (Bytes::from(lines), export)))
    });
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)))
}

/// Where an export stands.
struct Export {
    app: App,
    caller: Caller,
    /// Those that are not told yet, with the one that is being told first.
    sessions: VecDeque<SessionId>,
    head: Head,
    begun: bool,
}

impl Export {
    /// Returns the next lines; `None` when everything is told.
    async fn next(&mut self) -> Result<Option<String>, haft_store::Error> {
        let Some(session) = self.sessions.front().copied() else { return Ok(None) };
        let mut lines = String::new();
        if !self.begun {
            self.begun = true;
            let (haft, at) = (env!("CARGO_PKG_VERSION"), self.app.now());
            let line = json!({
                "type": "session", "session": session, "haft": haft, "exported_at": at,
            });
            lines.push_str(&format!("{line}\n"));
        }
        let entries = self.app.store().entries(session, self.head.seq, PAGE).await?;
        for entry in &entries {
            lines.push_str(&line(entry));
            self.head = Head { seq: entry.seq, hash: entry.hash };
        }
        if entries.len() < PAGE as usize {
            let Head { seq, hash } = self.head;
            let end = json!({ "type": "end", "session": session, "entries": seq, "head": hash });
            lines.push_str(&self.artifacts(session).await?);
            lines.push_str(&format!("{end}\n"));
            self.sessions.pop_front();
            (self.head, self.begun) = (Head::EMPTY, false);
        }
        Ok(Some(lines))
    }

    async fn artifacts(&self, session: SessionId) -> Result<String, haft_store::Error> {
        let mut lines = String::new();
        for id in self.app.store().artifacts_of(session).await? {
            let Some(found) = self.app.store().artifact(&self.caller.tenant, id).await? else {
                continue;
            };
            let line = json!({
                "type": "artifact", "session": session, "artifact": id, "at": found.at,
                "media_type": found.reference.media_type, "title": found.reference.title,
                "sha256": found.digest, "data": STANDARD.encode(&found.body),
            });
            lines.push_str(&format!("{line}\n"));
        }
        Ok(lines)
    }
}

/// An entry with its event as it is stored: the hash is over these very bytes.
fn line(entry: &Entry) -> String {
    let Entry { format, session, seq, at, hash, body } = entry;
    let (session, at, hash) = (json!(session), json!(at), json!(hash));
    format!(
        "{{\"type\":\"entry\",\"session\":{session},\"seq\":{seq},\"at\":{at},\
         \"format\":{format},\"hash\":{hash},\"event\":{body}}}\n"
    )
}

/// What is kept of the tenant's sessions that were erased, and whether all of it is what was
/// recorded.
pub(super) async fn erasures(
    State(app): State<App>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Approve)?;
    let limit = params.limit(200, 1000)?;
    let after = params.one::<u64>("after")?.unwrap_or(0);
    params.finish()?;
    let chain = match app.store().verify_erasures().await {
        Ok(head) => json!({ "state": "whole", "erasures": head.seq, "head": head.hash }),
        Err(VerifyError::Store(error)) => return Err(error.into()),
        Err(error) => json!({ "state": "broken", "message": error.to_string() }),
    };
    let listed = app.store().erasures(&Page { after: Some(after), limit }).await?;
    let next = listed.last().filter(|_| listed.len() == limit as usize).map(|last| last.number);
    let theirs = listed.iter().filter(|one| one.tenant == caller.tenant);
    let data: Vec<Value> = theirs.map(shown).collect();
    Ok(Json(json!({ "chain": chain, "data": data, "next": next })))
}

fn shown(one: &ErasedSession) -> Value {
    json!({
        "number": one.number, "session": one.session, "entries": one.head.seq,
        "head": one.head.hash, "by": one.by, "at": one.at, "hash": one.hash,
    })
}
