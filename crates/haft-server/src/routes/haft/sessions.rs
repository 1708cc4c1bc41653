//! Sessions as people look at them: opened, spoken to, interrupted.

use axum::Json;
use axum::extract::State;
use haft_core::session::{Event, Open, Phase};
use haft_core::{ContentBlock, SessionId};
use haft_store::{ListedSession, Page, SessionFilter, Which};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::found::{self, Found};
use super::{calls, tools};
use crate::app::App;
use crate::caller::Caller;
use crate::default_environment;
use crate::demo;
use crate::error::Error;
use crate::input::{Body, Params, Path, read};
use crate::keys::Scope;
use crate::objects::Sort;
use crate::routes::v1;

/// How far into a log its first message is looked for.
const OPENING: u32 = 4;

pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    let limit = params.limit(50, 200)?;
    let after = params.one::<SessionId>("after")?;
    params.finish()?;
    let filter = SessionFilter {
        tenant: Some(caller.tenant.clone()),
        opened_by: caller.sees_only(),
        ..SessionFilter::default()
    };
    let page = Page { after, limit };
    let listed = app.store().sessions(&filter, &page).await?;
    let next = listed.last().filter(|_| listed.len() == limit as usize).map(|last| last.session);
    let mut data = Vec::with_capacity(listed.len());
    for session in &listed {
        data.push(row(&app, &caller, session).await?);
    }
    Ok(Json(json!({ "data": data, "next": next })))
}

/// A session in the list. One whose beginning cannot be read says why, and hides no other.
async fn row(app: &App, caller: &Caller, listed: &ListedSession) -> Result<Value, Error> {
    let Named { title, agent, unreadable } = named(app, caller, listed.session).await?;
    Ok(json!({
        "id": listed.session, "title": title, "agent": agent, "status": listed.status.as_str(),
        "n_waiting": listed.n_waiting, "head": listed.head_seq, "unreadable": unreadable,
        "opened_at": listed.created_at, "updated_at": listed.updated_at,
    }))
}

#[derive(Default)]
struct Named {
    title: Option<String>,
    agent: Option<String>,
    /// Why the beginning of its log cannot be read.
    unreadable: Option<String>,
}

/// What a session is called: as its client put it, else by what was first said or done in it.
async fn named(app: &App, caller: &Caller, session: SessionId) -> Result<Named, Error> {
    let id = session.to_string();
    let beside = app.objects().find(&caller.tenant, Sort::Session, &id, Which::Latest).await?;
    let mut title = beside.as_ref().and_then(|beside| beside.text("title").map(str::to_owned));
    let mut agent = None;
    for entry in app.store().entries(session, 0, OPENING).await? {
        let event = match entry.event() {
            Ok(event) => event,
            Err(error) => {
                tracing::warn!(%session, %error, "the beginning of a session cannot be read");
                return Ok(Named { title, agent, unreadable: Some(error.to_string()) });
            }
        };
        match event {
            Event::SessionOpened { config, .. } => {
                agent = config.agent.as_ref().map(|agent| agent.id.clone());
            }
            Event::MessageReceived { content, .. } => {
                let said = content.iter().find_map(ContentBlock::as_text).map(str::to_owned);
                title = title.or(said);
            }
            Event::CallProposed { contract, .. } => {
                title = title.or_else(|| Some(format!("Call of {}", contract.tool)));
            }
            Event::CallRejected { name, .. } => {
                title = title.or_else(|| Some(format!("Call of {name}")));
            }
            _ => {}
        }
    }
    Ok(Named { title, agent, unreadable: None })
}

pub(super) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(session): Path<String>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    let found = Found::session(&app, &caller, &session).await?;
    let Named { title, agent, .. } = named(&app, &caller, found.id).await?;
    let status = found::row(&app, &caller, found.id).await?.map(|row| row.status.as_str());
    let own = found.open().map(|open| open.config.toolset.own.as_slice()).unwrap_or_default();
    let own: Vec<Value> = own.iter().map(|definition| tools::shown(definition, &[])).collect();
    Ok(Json(json!({
        "id": found.id, "title": title, "agent": agent, "status": status,
        "head": found.loaded.head.seq, "tools": own,
        "grants": found.open().map(|open| open.grants()),
        "queued": queued(&app, &found),
    })))
}

/// The calls of a session that wait until their server or tool has room.
fn queued(app: &App, found: &Found) -> Vec<Value> {
    let calls = found.open().into_iter().flat_map(Open::calls);
    let queued = calls.filter_map(|call| match call.phase {
        Phase::Ready { queued_at: Some(since), .. } => Some((call, since)),
        _ => None,
    });
    let told = queued.map(|(call, since)| {
        let mut place = calls::queue_place(app, call.id);
        place["call"] = json!(call.id);
        place["tool"] = json!(call.contract.tool);
        place["since"] = json!(since);
        place
    });
    told.collect()
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Opening {
    agent: Option<String>,
    environment: Option<String>,
    title: Option<String>,
    message: Option<String>,
    /// How long its calls wait for a person or a client. Default: what the server was started
    /// with, else 300 seconds.
    suspend_ttl_ms: Option<u64>,
    /// How much is asked in it, in place of what its agent says.
    permission_level: Option<String>,
}

/// Opens a session of an agent: the API's own way, with the environment chosen if none is named.
pub(super) async fn open(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    Body(opening): Body<Opening>,
) -> Result<Json<Value>, Error> {
    let environment = match opening.environment {
        Some(environment) => environment,
        None => default_environment::of(&app, &caller.tenant).await?,
    };
    let agent = match opening.agent {
        Some(agent) => agent,
        None => newest_agent(&app, &caller).await?,
    };
    let said = |text: &String| json!([{ "type": "text", "text": text }]);
    let events: Vec<Value> = opening
        .message
        .iter()
        .map(|text| json!({ "type": "user.message", "content": said(text) }))
        .collect();
    let declared = json!({
        "agent": agent, "environment_id": environment, "title": opening.title,
        "initial_events": events, "permission_level": opening.permission_level,
    });
    params.finish()?;
    let suspend_ttl = tools::suspend_ttl(opening.suspend_ttl_ms)?;
    let made = v1::sessions::opened(&app, &caller, read(declared)?, suspend_ttl).await?;
    Ok(Json(json!({ "session": made.0["id"] })))
}

async fn newest_agent(app: &App, caller: &Caller) -> Result<String, Error> {
    let current = |object: &crate::objects::Object| !object.is_archived();
    let (found, _) = app.objects().list(&caller.tenant, Sort::Agent, None, 1, current).await?;
    let found = found.into_iter().next().map(|object| object.id);
    found.ok_or_else(|| Error::invalid("there is no agent yet; make one first"))
}

/// The agents that a session can be opened with.
pub(super) async fn agents(
    State(app): State<App>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    let limit = params.limit(100, 500)?;
    let after = params.text("page");
    params.finish()?;
    let current = |object: &crate::objects::Object| !object.is_archived();
    let listed = app.objects().list(&caller.tenant, Sort::Agent, after, limit, current).await?;
    let (found, next) = listed;
    let data: Vec<Value> = found.iter().map(|agent| {
        json!({ "id": agent.id, "name": agent.text("name"), "starters": demo::starters(&agent.id) })
    }).collect();
    Ok(Json(json!({ "data": data, "next_page": next })))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Message {
    text: String,
}

pub(super) async fn say(
    State(app): State<App>,
    caller: Caller,
    Path(session): Path<String>,
    params: Params,
    Body(message): Body<Message>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let found = Found::session(&app, &caller, &session).await?;
    let content = vec![ContentBlock::Text { text: message.text }];
    let message = app.haft().say(found.id, caller.actor, content).await?;
    Ok(Json(json!({ "message": message })))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Interrupt")]
pub(super) struct Why {
    pub(super) note: Option<String>,
}

pub(super) async fn interrupt(
    State(app): State<App>,
    caller: Caller,
    Path(session): Path<String>,
    params: Params,
    Body(why): Body<Why>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let found = Found::session(&app, &caller, &session).await?;
    app.haft().interrupt(found.id, caller.actor, why.note).await?;
    Ok(Json(json!({})))
}
