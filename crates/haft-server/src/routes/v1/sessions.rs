//! `/v1/sessions`: an agent at work. What happens in one is its log; title and metadata are what
//! a client puts beside it.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use haft_core::session::Environment;
use haft_core::{Millis, SessionId};
use haft_store::{Expected, Page, Request, SessionFilter};
use haft_tools::Hands;
use haft_wire::managed::SentEvent;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::agents::{SkillParam, archived, merged, require_current};
use super::{environments, events, page, resources, skills};
use crate::app::App;
use crate::caller::Caller;
use crate::erasing;
use crate::error::{Error, Kind};
use crate::input::{Body, Params, Path, read};
use crate::keys::Scope;
use crate::memory_tools;
use crate::objects::{Object, Sort};
use crate::plan::{Cast, Member, checked_metadata, config, settled_level};
use crate::roster;
use crate::session::{Session, beside};
use crate::session_vaults;

const SORT: Sort = Sort::Session;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Session")]
pub(crate) struct Declared {
    agent: AgentParam,
    environment_id: String,
    title: Option<String>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    #[serde(default)]
    initial_events: Vec<Value>,
    #[serde(default)]
    resources: Vec<Value>,
    #[serde(default)]
    vault_ids: Vec<String>,
    budget: Option<Value>,
    /// How much is asked in it, in place of what its agent says.
    permission_level: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum AgentParam {
    Id(String),
    Pinned(Pinned),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PinnedAgent")]
struct Pinned {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    version: Option<u64>,
}

impl Declared {
    /// Refuses what would be left out.
    fn checked(&self) -> Result<(), Error> {
        if self.budget.as_ref().is_some_and(|budget| !budget.is_null()) {
            return Err(Error::unsupported("`budget`"));
        }
        if self.initial_events.len() > 50 {
            return Err(Error::invalid("initial_events: expected at most 50"));
        }
        checked_metadata(&self.metadata)
    }
}

impl AgentParam {
    fn pinned(&self) -> Result<(&str, Option<u64>), Error> {
        match self {
            Self::Id(id) => Ok((id, None)),
            Self::Pinned(Pinned { id, kind, version }) if kind == "agent" => Ok((id, *version)),
            Self::Pinned(Pinned { kind, .. }) => {
                Err(Error::unsupported(&format!("an agent of type {kind:?}")))
            }
        }
    }
}

pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    Body(declared): Body<Declared>,
) -> Result<Json<Value>, Error> {
    params.finish()?;
    opened(&app, &caller, declared, None).await
}

/// Opens a session of an agent. `suspend_ttl` is how long its calls wait, in place of the server's.
pub(crate) async fn opened(
    app: &App,
    caller: &Caller,
    declared: Declared,
    suspend_ttl: Option<Millis>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    declared.checked()?;
    let initial = events::read_events(declared.initial_events.clone(), "initial_events")?;
    if initial.iter().any(|event| !matches!(event, SentEvent::Message { .. })) {
        return Err(Error::invalid("initial_events: expected `user.message` events only"));
    }
    // Whatever becomes of a credential from now on concerns the session.
    let at = app.now();
    session_vaults::checked(app, caller, &declared.vault_ids).await?;
    let mut cast = cast(app, caller, declared.agent.pinned()?, &declared.environment_id).await?;
    if let Some(level) = &declared.permission_level {
        let level = settled_level(Some(level))?;
        if level < cast.level && caller.require(Scope::Admin).is_err() {
            let message = "permission_level: only an admin opens a session in which less is asked \
                           than its agent says";
            return Err(Error::new(Kind::Permission, message));
        }
        cast.level = level;
    }
    let attached = resources::attached(app, caller, declared.resources.clone(), &[]).await?;
    cast.attach(&memory_tools::attached(&attached));
    let mut members = beside(declared.title.as_deref(), &json!(declared.metadata), &cast);
    members.insert("resources".to_owned(), attached.into());
    members.insert("vault_ids".to_owned(), declared.vault_ids.into());
    let mut ground = app.ground(&caller.tenant);
    ground.suspend_ttl = suspend_ttl.unwrap_or(ground.suspend_ttl);
    let config = config(cast, &ground)?;
    let session = app.haft().open(caller.tenant.clone(), config, caller.actor.clone()).await?;
    let place = SORT.place(&caller.tenant, &session.to_string())?;
    app.objects().put(place, Expected::Absent, &members, &caller.actor, at).await?;
    if !initial.is_empty() {
        events::apply(app, caller, (session, None), events::named(app, initial)?).await?;
    }
    shown(app, caller, &session.to_string()).await
}

/// Finds the agent in its version, and where it works.
pub(crate) async fn cast(
    app: &App,
    caller: &Caller,
    (id, version): (&str, Option<u64>),
    place: &str,
) -> Result<Cast, Error> {
    let agent = roster::current(app, &caller.tenant, id, version).await?;
    let environment = app.objects().get(&caller.tenant, Sort::Environment, place).await?;
    require_current(&environment)?;
    let mut cast = cast_of(app, caller, &agent, &environment).await?;
    for (id, version) in roster::listed(&agent) {
        let agent = match id == agent.id {
            // Itself, as it is in this session.
            true => agent.clone(),
            false => roster::current(app, &caller.tenant, &id, Some(version)).await?,
        };
        cast.roster.push(Member {
            name: agent.text("name").unwrap_or_default().to_owned(),
            description: agent.text("description").map(str::to_owned),
            cast: cast_of(app, caller, &agent, &environment).await?,
        });
    }
    Ok(cast)
}

/// An agent where it works, without those who work for it.
async fn cast_of(
    app: &App,
    caller: &Caller,
    agent: &Object,
    environment: &Object,
) -> Result<Cast, Error> {
    let member = |name: &str| agent.members.get(name).cloned().unwrap_or_default();
    let network = environments::network(environment, &member("mcp_servers"))?;
    let environment = Environment { network, id: environment.id.clone() };
    let model = member("model");
    let model = model.get("id").and_then(Value::as_str).unwrap_or_default();
    let mut found = Vec::new();
    let skills: Vec<SkillParam> = read(member("skills"))?;
    for SkillParam { skill_id, version, .. } in skills {
        let version = skills::version(app, caller, &skill_id, version.as_deref()).await?;
        found.push(read(json!({
            "name": version.text("name"), "description": version.text("description"),
            "files": version.members.get("files"),
        }))?);
    }
    Ok(Cast {
        skills: found,
        stores: Vec::new(),
        roster: Vec::new(),
        id: agent.id.clone(),
        version: member("version").as_u64().unwrap_or(agent.number),
        model: model.to_owned(),
        level: settled_level(agent.text("permission_level"))?,
        instructions: agent.text("system").map(str::to_owned),
        tools: read(member("tools"))?,
        servers: read(member("mcp_servers"))?,
        environment,
    })
}

async fn shown(app: &App, caller: &Caller, id: &str) -> Result<Json<Value>, Error> {
    let session = Session::seen(app, caller, id).await?;
    Ok(Json(session.shown_whole(app, &caller.tenant).await?))
}

pub(crate) async fn retrieve(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    shown(&app, &caller, &id).await
}

pub(crate) async fn update(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
    Body(changes): Body<Map<String, Value>>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let session = Session::owned(&app, &caller, &id).await?;
    session.require_current()?;
    let mut members = session.beside.members.clone();
    for (name, value) in changes {
        let value = match name.as_str() {
            "title" if value.is_string() || value.is_null() => value,
            "metadata" => {
                let metadata = merged(members.remove("metadata"), value);
                checked_metadata(&read(metadata.clone())?)?;
                metadata
            }
            _ => return Err(Error::unsupported(&format!("a change of `{name}`"))),
        };
        members.insert(name, value);
    }
    let place = SORT.place(&caller.tenant, &id)?;
    let expected = Expected::Version(session.beside.number);
    app.objects().put(place, expected, &members, &caller.actor, app.now()).await?;
    shown(&app, &caller, &id).await
}

pub(crate) async fn archive(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let session = Session::owned(&app, &caller, &id).await?;
    require_at_rest(&session)?;
    archived(&app, &caller, SORT, session.beside).await?;
    end_processes(&app, session.id).await?;
    shown(&app, &caller, &id).await
}

/// An archived session takes no more calls, so nothing that its calls have started goes on either.
async fn end_processes(app: &App, session: SessionId) -> Result<(), Error> {
    let Some(hands) = app.haft().service::<Hands>() else { return Ok(()) };
    hands.close(session);
    for below in app.haft().below(session).await? {
        hands.close(below);
    }
    Ok(())
}

/// Deletes a session with all that belong to it: what was said and done in it is erased.
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let deleted = Json(json!({ "id": id, "type": "session_deleted" }));
    let session = match Session::owned(&app, &caller, &id).await {
        Err(error) if error.kind() == Kind::NotFound && was_erased(&app, &caller, &id).await? => {
            return Ok(deleted);
        }
        session => session?,
    };
    require_at_rest(&session)?;
    erasing::delete(&app, &caller.tenant, session.id, &caller.actor).await?;
    Ok(deleted)
}

/// Returns whether an earlier run of the request has had the session erased.
async fn was_erased(app: &App, caller: &Caller, id: &str) -> Result<bool, Error> {
    let Some(session) = Request::current()
        .filter(Request::was_begun_before)
        .and_then(|_| id.parse::<SessionId>().ok())
    else {
        return Ok(false);
    };
    let erased = app.store().erased(session).await?;
    Ok(erased.is_some_and(|erased| erased.tenant == caller.tenant))
}

fn require_at_rest(session: &Session) -> Result<(), Error> {
    match session.status() {
        "running" => Err(Error::invalid("the session is running; send `user.interrupt` first")),
        _ => Ok(()),
    }
}

pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    let limit = params.limit(20, 100)?;
    let mut after = params.one::<SessionId>("page")?;
    let all = params.one::<bool>("include_archived")?.unwrap_or(false);
    let agent = params.text("agent_id");
    let statuses = params.list("statuses");
    if params.text("order").is_some_and(|order| order != "desc") {
        return Err(Error::unsupported("an `order` other than `desc`"));
    }
    params.finish()?;
    let filter = SessionFilter {
        tenant: Some(caller.tenant.clone()),
        agent,
        opened_by: caller.sees_only(),
        ..SessionFilter::default()
    };
    let wanted = |session: &Session| {
        (all || !session.beside.is_archived())
            && (statuses.is_empty() || statuses.iter().any(|word| word == session.status()))
    };
    let (mut data, mut unreadable) = (Vec::new(), Vec::new());
    loop {
        let listed = app.store().sessions(&filter, &Page { after, limit }).await?;
        let is_last = listed.len() < limit as usize;
        for listed in listed {
            if data.len() == limit as usize {
                let next = after.map(|after| after.to_string());
                return Ok(Json(page_without(data, next, unreadable)));
            }
            after = Some(listed.session);
            let id = listed.session.to_string();
            let session = match Session::find(&app, &caller.tenant, &id).await {
                Ok(session) => session,
                // One that was deleted, or that no client of this API opened, is not shown.
                Err(error) if error.kind() == Kind::NotFound => continue,
                Err(error) if error.is_of_damage() => {
                    unreadable.push(id);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if wanted(&session) {
                data.push(session.shown(&app, &caller.tenant).await?);
            }
        }
        if is_last {
            return Ok(Json(page_without(data, None, unreadable)));
        }
    }
}

/// A page that names the sessions it should have and cannot read.
fn page_without(data: Vec<Value>, next: Option<String>, unreadable: Vec<String>) -> Value {
    let mut page = page(data, next);
    if !unreadable.is_empty() {
        page["unreadable"] = unreadable.into();
    }
    page
}
