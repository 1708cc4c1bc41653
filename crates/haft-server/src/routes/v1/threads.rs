//! `/v1/sessions/{id}/threads`: the session itself, and the sub-agents that work for it.

use axum::Json;
use axum::extract;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use haft_core::SessionId;
use haft_core::session::{Agent, Event, State};
use haft_store::{Expected, Place as Kept, Which};
use haft_wire::managed::{Place, thread_id};
use serde_json::{Value, json};

use super::events::{PAGE_BYTES_MAX, last_event, listed, previewed, previews};
use super::{page, unless_over};
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::feed::{self, Since};
use crate::input::{Params, Path};
use crate::keys::Scope;
use crate::objects::{Members, Sort};
use crate::pages::Wanted;
use crate::session::{Session, agent_of_session, status_of};

/// Where it is kept which threads were archived.
const ARCHIVED: &str = "v1/threads";

/// A thread of a session that the caller may see.
struct Thread {
    session: SessionId,
    /// The session that it works for, if it works for one.
    parent: Option<SessionId>,
}

/// Returns the threads of a session: itself, then its sub-agents and theirs, in their order.
async fn threads(app: &App, session: SessionId) -> Result<Vec<Thread>, Error> {
    let mut threads = vec![Thread { session, parent: None }];
    let mut next = 0;
    while let Some(Thread { session: parent, .. }) = threads.get(next) {
        let parent = *parent;
        let children: Vec<SessionId> = {
            let pages = feed::pages(app, parent).await?;
            pages.threads().iter().filter_map(|id| session_of_thread(id)).collect()
        };
        let children = children.into_iter();
        threads.extend(children.map(|session| Thread { session, parent: Some(parent) }));
        next += 1;
    }
    Ok(threads)
}

fn session_of_thread(id: &str) -> Option<SessionId> {
    format!("{}_{}", SessionId::PREFIX, id.strip_prefix("sthr_")?).parse().ok()
}

async fn find(app: &App, caller: &Caller, of: &str, id: &str) -> Result<(Session, Thread), Error> {
    let session = Session::seen(app, caller, of).await?;
    let threads = threads(app, session.id).await?;
    let found = threads.into_iter().find(|thread| thread_id(thread.session) == id);
    let found = found.ok_or_else(|| Error::not_found("thread of this session", id))?;
    Ok((session, found))
}

async fn shown(
    app: &App,
    caller: &Caller,
    main: &Session,
    thread: &Thread,
) -> Result<Option<Value>, Error> {
    // A child that is about to be opened is not there yet.
    let Some(loaded) = app.store().load(thread.session).await? else { return Ok(None) };
    let first = app.store().entries(thread.session, 0, 1).await?;
    let Some(first) = first.first() else { return Ok(None) };
    let Event::SessionOpened { config, .. } = first.event()? else { return Ok(None) };
    let last = app.store().entries(thread.session, loaded.head.seq.saturating_sub(1), 1).await?;
    let usage = feed::pages(app, thread.session).await?.spent().shown();
    Ok(Some(json!({
        "id": thread_id(thread.session),
        "type": "session_thread",
        "session_id": main.id.to_string(),
        "parent_thread_id": thread.parent.map(thread_id),
        "agent": agent(app, caller, config.agent.as_ref()).await?,
        "status": status_of(&loaded.state),
        "created_at": first.at.to_string(),
        "updated_at": last.first().map_or(first.at, |last| last.at).to_string(),
        "archived_at": archived_at(app, caller, main, thread).await?,
        "usage": usage,
    })))
}

/// When a thread was archived; the main one is with its session.
async fn archived_at(
    app: &App,
    caller: &Caller,
    main: &Session,
    thread: &Thread,
) -> Result<Option<Value>, Error> {
    if thread.parent.is_none() {
        return Ok(main.beside.members.get("archived_at").cloned());
    }
    let id = thread_id(thread.session);
    let found = app.objects().find_in(&caller.tenant, ARCHIVED, &id, Which::Latest).await?;
    Ok(found.and_then(|found| found.members.get("archived_at").cloned()))
}

/// A thread's agent; a sub-agent that is no named agent is shown by what it was given.
async fn agent(app: &App, caller: &Caller, agent: Option<&Agent>) -> Result<Value, Error> {
    let Some(agent) = agent else { return Ok(Value::Null) };
    let version = Which::Number(agent.version);
    let found = app.objects().find(&caller.tenant, Sort::Agent, &agent.id, version).await?;
    Ok(match found {
        Some(found) => agent_of_session(&found, agent.version).into(),
        None => json!({
            "type": "agent", "id": agent.id, "name": agent.id, "version": agent.version,
            "model": { "id": agent.model, "speed": "standard" }, "system": agent.instructions,
            "tools": [], "mcp_servers": [], "skills": [],
        }),
    })
}

pub(crate) async fn list(
    extract::State(app): extract::State<App>,
    caller: Caller,
    Path(id): Path<String>,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    let limit = params.limit(20, 100)? as usize;
    let start = params.one::<usize>("page")?.unwrap_or(0);
    let statuses = params.list("statuses");
    params.finish()?;
    let session = Session::seen(&app, &caller, &id).await?;
    let threads = threads(&app, session.id).await?;
    let mut data = Vec::new();
    for (at, thread) in threads.iter().enumerate().skip(start) {
        let Some(thread) = shown(&app, &caller, &session, thread).await? else { continue };
        let status = thread["status"].as_str().unwrap_or_default();
        if !statuses.is_empty() && !statuses.iter().any(|wanted| wanted == status) {
            continue;
        }
        if data.len() == limit {
            return Ok(Json(page(data, Some(at.to_string()))));
        }
        data.push(thread);
    }
    Ok(Json(page(data, None)))
}

pub(crate) async fn retrieve(
    extract::State(app): extract::State<App>,
    caller: Caller,
    Path((session, id)): Path<(String, String)>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    let (session, thread) = find(&app, &caller, &session, &id).await?;
    let shown = shown(&app, &caller, &session, &thread).await?;
    Ok(Json(shown.ok_or_else(|| Error::not_found("thread of this session", &id))?))
}

/// Ends a sub-agent that is at rest. What it said and did stays to be read.
pub(crate) async fn archive(
    extract::State(app): extract::State<App>,
    caller: Caller,
    Path((session, id)): Path<(String, String)>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let (main, thread) = find(&app, &caller, &session, &id).await?;
    main.require_owned(&caller)?;
    if thread.parent.is_none() {
        return Err(Error::invalid("this thread is the session itself; archive the session"));
    }
    let missing = || Error::not_found("thread of this session", &id);
    // What was archived before it is opened would run all the same.
    let loaded = app.store().load(thread.session).await?.ok_or_else(missing)?;
    end(&app, &caller, thread.session, &loaded.state).await?;
    if archived_at(&app, &caller, &main, &thread).await?.is_none() {
        let at = app.now();
        let members = Members::from_iter([("archived_at".to_owned(), at.to_string().into())]);
        let place = Kept::new(caller.tenant.clone(), ARCHIVED, &id)?;
        app.objects().put(place, Expected::Absent, &members, &caller.actor, at).await?;
    }
    Ok(Json(shown(&app, &caller, &main, &thread).await?.ok_or_else(missing)?))
}

/// Ends a sub-agent and those that work for it.
async fn end(app: &App, caller: &Caller, thread: SessionId, state: &State) -> Result<(), Error> {
    let note = || Some("archived".to_owned());
    if let Some(open) = state.as_open() {
        if !open.is_at_rest() {
            return Err(Error::invalid(
                "the thread is at work, or waits for an answer; answer it or send \
                 `user.interrupt` first",
            ));
        }
        unless_over(app.haft().end(thread, caller.actor.clone(), note()).await)?;
    }
    for below in app.haft().below(thread).await? {
        unless_over(app.haft().end(below, caller.actor.clone(), note()).await)?;
    }
    Ok(())
}

pub(crate) async fn events(
    extract::State(app): extract::State<App>,
    caller: Caller,
    Path((session, id)): Path<(String, String)>,
    mut params: Params,
) -> Result<impl IntoResponse, Error> {
    caller.require(Scope::Read)?;
    let limit = params.limit(100, 1000)? as usize;
    let after = params.one::<Place>("page")?;
    params.finish()?;
    let (_, thread) = find(&app, &caller, &session, &id).await?;
    let (bytes_max, types) = (PAGE_BYTES_MAX, Vec::new());
    let wanted = Wanted { limit, bytes_max, after, types, is_descending: false };
    listed(&app, thread.session, &wanted).await
}

pub(crate) async fn stream(
    extract::State(app): extract::State<App>,
    caller: Caller,
    Path((session, id)): Path<(String, String)>,
    headers: HeaderMap,
    mut params: Params,
) -> Result<impl IntoResponse, Error> {
    caller.require(Scope::Read)?;
    let previews = previews(&mut params)?;
    params.finish()?;
    let since = last_event(&headers)?.map_or(Since::Now, Since::After);
    let (top, thread) = find(&app, &caller, &session, &id).await?;
    previewed(&app, thread.session, &top, (since, previews)).await
}
