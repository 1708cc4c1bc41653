//! A session's log as it is stored, page by page or as it grows; the live plane beside it.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use haft_core::journal::Entry;
use haft_core::session::Event;
use haft_core::{SessionId, Timestamp, ToolAlias};
use haft_runtime::{Live, LiveNews, SessionListener};
use haft_store::{ChangedBy, Watch};
use haft_wire::managed;
use serde::Serialize;
use serde_json::{Value, json};

use super::found::Found;
use crate::app::App;
use crate::caller::Caller;
use crate::deletion::Deletable;
use crate::error::Error;
use crate::input::{Params, Path};
use crate::keys::Scope;
use crate::presence::Present;
use crate::streams::{self, Frame, KEEP_ALIVE_EVERY, Source, View};

/// How many entries are read at once for a stream.
const PAGE: u32 = 512;

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
    let live = app.haft().live().listen(found.id);
    let watch = app.store().watch(found.id, ChangedBy::Anyone);
    let deletable = Deletable { tenant: found.loaded.tenant.clone(), session: found.id };
    let tail = Tail {
        app: app.clone(),
        session: found.id,
        seq,
        live,
        watch,
        place: Place::Behind,
        looks: true,
        has_ended: found.open().is_none(),
        deletable,
        _present: present,
    };
    Ok(streams::respond(app.streams(), tail))
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
    live: SessionListener,
    watch: Watch,
    place: Place,
    /// Whether there may be something new in the log.
    looks: bool,
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

/// An entry as it is told.
#[derive(Serialize)]
struct EntryText<'a> {
    seq: u64,
    at: Timestamp,
    event: &'a Event,
}

/// Why a stream stopped waiting.
enum WakeReason {
    Look,
    /// There is something to tell that is in no log.
    Tell(Frame),
    Over,
}

impl Source for Tail {
    /// Returns what is told next. `None` when the session was deleted, and when the server goes away
    /// or the log cannot be read: then the client asks again for what it missed.
    async fn next(&mut self) -> Option<Vec<Frame>> {
        loop {
            if self.place == Place::Over {
                return None;
            }
            if self.looks {
                let frames = self.read().await.ok()?;
                if !frames.is_empty() {
                    return Some(frames);
                }
                continue;
            }
            match self.wait().await {
                WakeReason::Look => self.looks = true,
                WakeReason::Tell(frame) => return Some(vec![frame]),
                WakeReason::Over => return None,
            }
        }
    }
}

impl Tail {
    async fn read(&mut self) -> Result<Vec<Frame>, Error> {
        let streams = self.app.streams();
        let bytes_max = streams.batch_max();
        let turn = streams.turn_to_read().await;
        let page = self.app.store().entries_within(self.session, self.seq, PAGE, bytes_max).await?;
        let (n_entries, mut bytes, mut frames) = (page.len(), 0, Vec::new());
        for entry in page {
            bytes += entry.body.len();
            let event = entry.event()?;
            self.has_ended |= matches!(event, Event::SessionEnded {});
            let Entry { seq, at, .. } = entry;
            let key = (self.session, View::Log, managed::Place { seq, nth: 0 });
            let told =
                || serde_json::to_vec(&EntryText { seq, at, event: &event }).unwrap_or_default();
            let text = streams.shared(key, told);
            frames.push(Frame::event("entry", text).with_id(seq.to_string()));
            self.seq = seq;
        }
        drop(turn);
        self.looks = n_entries == PAGE as usize || bytes >= bytes_max;
        if self.looks {
            return Ok(frames);
        }
        self.watch.has_read(self.seq);
        if self.place == Place::Behind {
            self.place = Place::CaughtUp;
            let data = json!({ "seq": self.seq }).to_string();
            frames.push(Frame::event("caught_up", streams.own(data)));
        }
        if (self.has_ended || n_entries == 0)
            && let Some(at) = self.deletable.deleted_at(&self.app).await?
        {
            let data = json!({ "session": self.session, "at": at }).to_string();
            frames.push(Frame::event("session.deleted", streams.own(data)));
            self.place = Place::Over;
        }
        Ok(frames)
    }

    /// Waits until it is worth looking, or there is something to tell that is in no log. What was
    /// said before something was appended comes first.
    async fn wait(&mut self) -> WakeReason {
        let (live, streams) = (&mut self.live, self.app.streams());
        let has_ended = &mut self.has_ended;
        let heard = async {
            loop {
                let (kind, data) = match live.heard().await {
                    LiveNews::Live(Live::Progress { call, progress, .. }) => {
                        ("progress", json!({ "call": call, "progress": progress }))
                    }
                    LiveNews::Live(Live::Text { turn, attempt, text, .. }) => {
                        ("text", json!({ "turn": turn, "attempt": attempt, "text": text }))
                    }
                    LiveNews::Live(Live::Erased { .. }) => {
                        *has_ended = true;
                        return WakeReason::Look;
                    }
                    LiveNews::Live(Live::Appended { .. } | Live::Step { .. })
                    | LiveNews::Missed => {
                        continue;
                    }
                };
                return WakeReason::Tell(Frame::event(kind, streams.own(data.to_string())));
            }
        };
        tokio::select! {
            biased;
            () = self.app.shutdown().cancelled() => WakeReason::Over,
            woken = heard => woken,
            () = self.watch.changed() => WakeReason::Look,
            () = tokio::time::sleep(KEEP_ALIVE_EVERY) => WakeReason::Tell(Frame::keep_alive()),
        }
    }
}
