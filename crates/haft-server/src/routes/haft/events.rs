//! A session's log as it is stored, page by page or as it grows; the live plane beside it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use axum::response::sse::{Event as Frame, KeepAlive, Sse};
use futures_util::stream;
use haft_core::journal::Entry;
use haft_core::session::Event;
use haft_core::{SessionId, ToolAlias};
use haft_runtime::Live;
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::found::Found;
use crate::app::App;
use crate::caller::Caller;
use crate::deletion::Deletable;
use crate::error::Error;
use crate::input::{Params, Path};
use crate::keys::Scope;
use crate::presence::Present;

/// How many entries are read at once for a stream.
const PAGE: u32 = 512;

/// How often the log is looked at beside the live events: another node may append to it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(session): Path<String>,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    let limit = params.limit(1000, 1000)?;
    let after = params.one::<u64>("after")?.unwrap_or(0);
    params.finish()?;
    let found = Found::session(&app, &caller, &session).await?;
    let entries = app.store().entries(found.id, after, limit).await?;
    let data = entries.iter().map(shown).collect::<Result<Vec<_>, _>>()?;
    Ok(Json(json!({ "data": data, "head": found.loaded.head.seq })))
}

fn shown(entry: &Entry) -> Result<Value, Error> {
    Ok(json!({ "seq": entry.seq, "at": entry.at, "event": entry.event()? }))
}

/// Everything from the beginning, or after the place that `Last-Event-ID` names, and then what
/// comes. While it lasts, the tools that `client_tools` names count as there to be run.
pub(super) async fn stream(
    State(app): State<App>,
    caller: Caller,
    Path(session): Path<String>,
    headers: HeaderMap,
    mut params: Params,
) -> Result<impl IntoResponse, Error> {
    caller.require(Scope::Read)?;
    let tools = params.text("client_tools").unwrap_or_default();
    params.finish()?;
    let seq = match headers.get("last-event-id") {
        None => 0,
        Some(id) => {
            let id = id.to_str().unwrap_or_default();
            id.parse().map_err(|error| Error::invalid(format!("Last-Event-ID: {error}")))?
        }
    };
    let found = Found::session(&app, &caller, &session).await?;
    let present = match tools.as_str() {
        "" => None,
        tools => {
            caller.require(Scope::Approve)?;
            // What the session calls its tools may not be their names.
            let meant = |called: String| match found.open() {
                Some(open) => open.config.toolset.meant(&called).to_owned(),
                None => called,
            };
            let tools = tool_names(tools)?.into_iter().map(meant);
            Some(app.presence().enter(found.id, tools).await)
        }
    };
    let live = app.haft().live().subscribe_without_steps();
    let deletable = Deletable { tenant: found.loaded.tenant.clone(), session: found.id };
    let tail = Tail {
        app,
        session: found.id,
        seq,
        live,
        ready: VecDeque::new(),
        place: Place::Behind,
        has_ended: found.open().is_none(),
        deletable,
        _present: present,
    };
    let frames = stream::unfold(tail, |mut tail| async {
        let frame = tail.next().await?;
        Some((Ok::<_, Infallible>(frame), tail))
    });
    Ok(Sse::new(frames).keep_alive(KeepAlive::default()))
}

fn tool_names(tools: &str) -> Result<Vec<String>, Error> {
    let name = |tool: &str| match ToolAlias::new(tool) {
        Ok(name) => Ok(name.as_str().to_owned()),
        Err(error) => Err(Error::invalid(format!("client_tools: {error}"))),
    };
    tools.split(',').map(name).collect()
}

/// Follows a log.
struct Tail {
    app: App,
    session: SessionId,
    seq: u64,
    live: Receiver<Live>,
    ready: VecDeque<Frame>,
    place: Place,
    /// Whether the session has ended, which it does before it is deleted.
    has_ended: bool,
    deletable: Deletable,
    _present: Option<Present>,
}

/// Whether a stream has told all that there was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Behind,
    CaughtUp,
    /// The session was deleted, and that was told.
    Over,
}

impl Tail {
    /// Returns what is told next. `None` when the session was deleted, and when the server goes away
    /// or the log cannot be read: then the client asks again for what it missed.
    async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            if self.place == Place::Over {
                return None;
            }
            if self.place == Place::CaughtUp
                && let Some(frame) = self.wait().await?
            {
                return Some(frame);
            }
            self.read().await.ok()?;
        }
    }

    async fn read(&mut self) -> Result<(), Error> {
        let page = self.app.store().entries(self.session, self.seq, PAGE).await?;
        for entry in &page {
            let event = entry.event()?;
            self.has_ended |= matches!(event, Event::SessionEnded {});
            let data = json!({ "seq": entry.seq, "at": entry.at, "event": event }).to_string();
            let frame = Frame::default().event("entry").id(entry.seq.to_string()).data(data);
            self.ready.push_back(frame);
            self.seq = entry.seq;
        }
        if page.len() < PAGE as usize && self.place == Place::Behind {
            self.place = Place::CaughtUp;
            let data = json!({ "seq": self.seq }).to_string();
            self.ready.push_back(Frame::default().event("caught_up").data(data));
        }
        if self.has_ended
            && self.place == Place::CaughtUp
            && let Some(at) = self.deletable.deleted_at(&self.app).await?
        {
            let data = json!({ "session": self.session, "at": at }).to_string();
            self.ready.push_back(Frame::default().event("session.deleted").data(data));
            self.place = Place::Over;
        }
        Ok(())
    }

    /// Waits until it is worth looking, or there is something to tell that is in no log. `None`
    /// when nothing comes any more.
    async fn wait(&mut self) -> Option<Option<Frame>> {
        let (session, live) = (self.session, &mut self.live);
        let heard = async {
            loop {
                match live.recv().await {
                    Ok(Live::Appended { session: of, .. }) if of == session => return None,
                    Ok(Live::Progress { session: of, call, progress }) if of == session => {
                        let data = json!({ "call": call, "progress": progress }).to_string();
                        return Some(Frame::default().event("progress").data(data));
                    }
                    Ok(Live::Text { session: of, turn, attempt, text }) if of == session => {
                        let data = json!({ "turn": turn, "attempt": attempt, "text": text });
                        return Some(Frame::default().event("text").data(data.to_string()));
                    }
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => return None,
                    Err(RecvError::Closed) => std::future::pending().await,
                }
            }
        };
        tokio::select! {
            () = self.app.shutdown().cancelled() => None,
            frame = heard => Some(frame),
            () = tokio::time::sleep(LOOK_EVERY) => Some(None),
        }
    }
}
