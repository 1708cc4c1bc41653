//! Standing permissions beyond a session: listed, tried on what was recorded, given, taken back.
//!
//! Whoever may end waits may give themselves a permission. One for everybody, for an agent or for
//! someone else is an administrator's to give.

use std::borrow::Cow;

use axum::Json;
use axum::extract::State;
use haft_core::permission::StandingGrant;
use haft_core::session::{Event, Phase};
use haft_core::tool::Contract;
use haft_core::{ActorId, ActorKind, Arguments, CallId, GrantId, SessionId, Timestamp};
use haft_runtime::{GrantError, HeldGrant, Holder, LedgerError};
use haft_store::{Loaded, Page, SessionFilter};
use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use super::calls::Terms;
use super::found::{Look, from_the_end};
use super::grants;
use crate::app::App;
use crate::caller::Caller;
use crate::error::{Error, Kind};
use crate::input::{Body, Params, Path, read};
use crate::keys::Scope;
use crate::objects::Sort;
use crate::openapi::also;

/// How many of the newest sessions are looked through for calls to try a permission on.
const SESSIONS_MAX: u32 = 100;

/// How many recorded calls a permission is tried on.
const TRIED_MAX: usize = 200;

/// The shape of a permission that someone wants to give: as within a session, and for whom.
pub(super) enum Proposed {}

impl JsonSchema for Proposed {
    fn schema_name() -> Cow<'static, str> {
        "StandingGrant".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = grants::Proposed::json_schema(generator);
        also(&mut schema, &[("holder", json!({}))]);
        schema
    }
}

/// A permission that someone wants to give.
struct Wanted {
    tool: String,
    holder: Holder,
    terms: Terms,
}

impl Wanted {
    fn read(caller: &Caller, mut body: Map<String, Value>) -> Result<Self, Error> {
        let tool = read(body.remove("tool").unwrap_or_default())?;
        let holder = match body.remove("holder") {
            Some(holder) => read(holder)?,
            None => themselves(caller)?,
        };
        Ok(Self { tool, holder, terms: read(Value::Object(body))? })
    }
}

/// The holder that a caller is, when they name none.
fn themselves(caller: &Caller) -> Result<Holder, Error> {
    match caller.actor.kind {
        ActorKind::User => Ok(Holder::User(caller.actor.id.clone())),
        ActorKind::Agent | ActorKind::Service | ActorKind::System => Err(Error::invalid(
            "this key is nobody's own; say `holder`: `tenant`, a user or an agent",
        )),
    }
}

fn is_own(caller: &Caller, holder: &Holder) -> bool {
    let own = |id: &ActorId| caller.actor.kind == ActorKind::User && caller.actor.id == *id;
    matches!(holder, Holder::User(id) if own(id))
}

/// Whether a caller may look at a grant: what stands for everybody or for an agent is no secret.
fn may_see(caller: &Caller, held: &HeldGrant) -> bool {
    match &held.holder {
        Holder::Tenant | Holder::Agent(_) => true,
        holder @ Holder::User(_) => is_own(caller, holder) || caller.may_see(&held.grant.by),
    }
}

/// Whether a caller may take a grant back: who gave it, for whom it stands, who administers.
fn may_revoke(caller: &Caller, held: &HeldGrant) -> bool {
    is_own(caller, &held.holder) || caller.may_change(&held.grant.by)
}

/// The permissions that stand and that the caller may look at.
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    let held = app.haft().grants().list(&caller.tenant).await?;
    let shown = held.iter().filter(|held| may_see(&caller, held)).map(|held| {
        json!({
            "holder": held.holder, "grant": held.grant, "may_revoke": may_revoke(&caller, held),
        })
    });
    Ok(Json(json!({ "data": shown.collect::<Vec<_>>() })))
}

/// Tries a permission on recorded calls of its tool that the caller may see. Nothing is given.
pub(super) async fn preview(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    Body(body): Body<Map<String, Value>>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    let Wanted { tool, holder, terms } = Wanted::read(&caller, body)?;
    let grant = app.haft().grants().propose(&tool, terms.into(), caller.actor.clone())?;
    let recorded = recorded(&app, &caller, &holder, &grant).await?;
    let n_calls = recorded.calls.len();
    let mut trial = Trial { past: grant.clone(), now: grant, at: app.now() };
    // What came first is let through first.
    let mut data: Vec<Value> = recorded.calls.iter().rev().map(|call| trial.try_on(call)).collect();
    data.reverse();
    Ok(Json(json!({
        "data": data,
        "looked_at": {
            "sessions": recorded.n_sessions, "calls": n_calls, "is_all": recorded.is_all,
        },
    })))
}

/// A call of the log that a permission is tried on.
struct Recorded {
    session: SessionId,
    call: CallId,
    contract: Contract,
    arguments: Arguments,
    waits: bool,
}

struct Recordings {
    /// The newest first.
    calls: Vec<Recorded>,
    n_sessions: usize,
    /// Whether there is nothing older that was not looked at.
    is_all: bool,
}

async fn recorded(
    app: &App,
    caller: &Caller,
    holder: &Holder,
    grant: &StandingGrant,
) -> Result<Recordings, Error> {
    let agent = match holder {
        Holder::Agent(agent) => Some(agent.clone()),
        Holder::Tenant | Holder::User(_) => None,
    };
    let tenant = Some(caller.tenant.clone());
    let filter = SessionFilter { tenant, agent, ..SessionFilter::default() };
    let (mut calls, mut n_sessions) = (Vec::new(), 0);
    let mut newest = app.store().sessions(&filter, &Page::first(SESSIONS_MAX + 1)).await?;
    let mut is_all = newest.len() <= SESSIONS_MAX as usize;
    newest.truncate(SESSIONS_MAX as usize);
    for listed in newest {
        let Some(loaded) = app.store().load(listed.session).await? else { continue };
        let of_holder = loaded.state.as_open().is_some_and(|open| {
            caller.may_see(&open.opened_by) && holder.covers(&open.opened_by, &open.config)
        });
        if !of_holder {
            continue;
        }
        n_sessions += 1;
        calls_of(app, listed.session, &loaded, grant, &mut calls).await?;
        if calls.len() >= TRIED_MAX {
            is_all = false;
            break;
        }
    }
    Ok(Recordings { calls, n_sessions, is_all })
}

async fn calls_of(
    app: &App,
    session: SessionId,
    loaded: &Loaded,
    grant: &StandingGrant,
    calls: &mut Vec<Recorded>,
) -> Result<(), Error> {
    let waits = |call| {
        let found = loaded.state.as_open().and_then(|open| open.call(call));
        found.is_some_and(|call| matches!(call.phase, Phase::Waiting(_)))
    };
    from_the_end(app, session, loaded.head.seq, |event| {
        if let Event::CallProposed { call, contract, arguments, .. } = event
            && contract.tool == grant.tool
        {
            let contract = Contract::clone(&contract);
            calls.push(Recorded { session, call, contract, arguments, waits: waits(call) });
        }
        if calls.len() < TRIED_MAX { Look::Further } else { Look::Enough }
    })
    .await
}

/// A permission as the calls of the past would have used it up, and as those that wait will.
struct Trial {
    past: StandingGrant,
    now: StandingGrant,
    at: Timestamp,
}

impl Trial {
    fn try_on(&mut self, recorded: &Recorded) -> Value {
        let Recorded { session, call, contract, arguments, waits } = recorded;
        let left = if *waits { &mut self.now } else { &mut self.past };
        let covers = left.covers(contract, arguments, self.at);
        if let Ok(used) = &covers {
            // What is taken is of no use to anyone here.
            drop(left.take(used, self.at));
        }
        json!({
            "session": session, "call": call, "arguments": arguments.record(),
            "covered": covers.is_ok(), "waiting": waits,
            "why": covers.err().map(|mismatch| mismatch.to_string()),
        })
    }
}

/// Gives a permission, and says which calls that waited go on because of it.
pub(super) async fn give(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    Body(body): Body<Map<String, Value>>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Approve)?;
    params.finish()?;
    let Wanted { tool, holder, terms } = Wanted::read(&caller, body)?;
    if !is_own(&caller, &holder) {
        caller.require(Scope::Admin)?;
    }
    if let Holder::Agent(agent) = &holder {
        app.objects().get(&caller.tenant, Sort::Agent, agent).await?;
    }
    let (grants, by) = (app.haft().grants(), caller.actor.clone());
    let given = grants.give(&caller.tenant, holder.clone(), &tool, terms.into(), by).await?;
    let settled = given.settled.iter();
    let settled = settled.map(|(session, call)| json!({ "session": session, "call": call }));
    Ok(Json(json!({
        "holder": holder, "grant": given.grant, "settled": settled.collect::<Vec<_>>(),
    })))
}

/// Takes a permission back. What it has let run is not undone.
pub(super) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Approve)?;
    params.finish()?;
    let missing = || Error::not_found("grant", &id);
    let grant: GrantId = id.parse().map_err(|_| missing())?;
    let held = app.haft().grants().list(&caller.tenant).await?;
    let held = held.into_iter().find(|held| held.grant.id == grant && may_see(&caller, held));
    if !may_revoke(&caller, &held.ok_or_else(missing)?) {
        let message = "only who gave it, for whom it stands, or an administrator takes it back";
        return Err(Error::new(Kind::Permission, message));
    }
    app.haft().grants().revoke(&caller.tenant, grant, caller.actor).await?;
    Ok(Json(json!({})))
}

impl From<GrantError> for Error {
    fn from(error: GrantError) -> Self {
        match error {
            GrantError::NotAllowed { .. } => Self::new(Kind::Permission, error.to_string()),
            GrantError::UnknownTool { tool } => Self::not_found("tool", &tool),
            GrantError::UnknownGrant { grant } => Self::not_found("grant", &grant.to_string()),
            GrantError::NeverApplies { .. } => Self::invalid(error.to_string()),
            GrantError::Node(error) => error.into(),
            GrantError::Ledger(error @ LedgerError::Busy) => {
                Self::new(Kind::Overloaded, error.to_string())
            }
            GrantError::Ledger(error) => Self::internal(error),
        }
    }
}
