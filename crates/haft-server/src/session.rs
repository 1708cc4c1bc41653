//! A session as the API shows it: read from its log, with the words that a client put beside it.

use haft_core::session::{Activity, Config, Event, Open, Phase, State};
use haft_core::{Actor, SessionId, Timestamp};
use haft_store::{Loaded, Store, Tenant, Which};
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::caller::Caller;
use crate::error::{Error, Kind};
use crate::feed;
use crate::objects::{Members, Object, Sort};
use crate::plan::Cast;
use crate::roster;
use crate::routes::v1::resources;
use crate::session_vaults::vaults_of;

/// A session that the caller may see.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) loaded: Loaded,
    /// Who opened it.
    owner: Actor,
    /// How it was opened.
    pub(crate) config: Config,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// What a client put beside it.
    pub(crate) beside: Object,
}

impl Session {
    /// Finds a session of a tenant. One of another tenant, or that no client opened, is none.
    pub(crate) async fn find(app: &App, tenant: &Tenant, id: &str) -> Result<Self, Error> {
        let missing = || Error::not_found(Sort::Session.noun(), id);
        let session: SessionId = id.parse().map_err(|_| missing())?;
        let loaded = app.store().load(session).await?.ok_or_else(missing)?;
        if loaded.tenant != *tenant {
            return Err(missing());
        }
        let beside = app.objects().find(tenant, Sort::Session, id, Which::Latest).await?;
        let beside = beside.ok_or_else(missing)?;
        // Who opened a session and how is in its state for as long as it is open.
        let (owner, config) = match &loaded.state {
            State::Open(open) => (open.opened_by.clone(), (*open.config).clone()),
            State::Unopened | State::Ended { .. } => {
                let first = app.store().entries(session, 0, 1).await?;
                match first.first().ok_or_else(missing)?.event()? {
                    Event::SessionOpened { config, by, .. } => (by, (*config).clone()),
                    _ => return Err(missing()),
                }
            }
        };
        let (created_at, updated_at) = (loaded.created_at, loaded.updated_at.max(beside.at));
        Ok(Self { id: session, loaded, owner, config, created_at, updated_at, beside })
    }

    /// Finds a session that the caller may look at; one that they may not is none.
    pub(crate) async fn seen(app: &App, caller: &Caller, id: &str) -> Result<Self, Error> {
        let session = Self::find(app, &caller.tenant, id).await?;
        match caller.may_see(&session.owner) {
            true => Ok(session),
            false => Err(Error::not_found(Sort::Session.noun(), id)),
        }
    }

    /// Finds a session that the caller may change.
    pub(crate) async fn owned(app: &App, caller: &Caller, id: &str) -> Result<Self, Error> {
        let session = Self::seen(app, caller, id).await?;
        session.require_owned(caller)?;
        Ok(session)
    }

    /// Refuses what only whoever opened the session may do, and an admin.
    pub(crate) fn require_owned(&self, caller: &Caller) -> Result<(), Error> {
        match caller.may_change(&self.owner) {
            true => Ok(()),
            false => {
                let message = "only whoever opened this session may do this, or an admin";
                Err(Error::new(Kind::Permission, message))
            }
        }
    }

    /// What was attached to it, as it is kept.
    pub(crate) fn attached(&self) -> Vec<Value> {
        let kept = self.beside.members.get("resources").and_then(Value::as_array);
        kept.cloned().unwrap_or_default()
    }

    /// Refuses what an archived session does not take.
    pub(crate) fn require_current(&self) -> Result<(), Error> {
        match self.beside.is_archived() {
            true => Err(Error::invalid(format!("the session `{}` is archived", self.id))),
            false => Ok(()),
        }
    }

    pub(crate) fn status(&self) -> &'static str {
        status_of(&self.loaded.state)
    }

    /// Writes the session as the API shows it by itself, with what it has cost: in a list that
    /// would have every log folded.
    pub(crate) async fn shown_whole(&self, app: &App, tenant: &Tenant) -> Result<Value, Error> {
        let mut shown = self.shown(app, tenant).await?;
        shown["usage"] = feed::pages(app, self.id).await?.spent().shown();
        Ok(shown)
    }

    /// Writes the session as the API shows it.
    pub(crate) async fn shown(&self, app: &App, tenant: &Tenant) -> Result<Value, Error> {
        let beside = |name: &str| self.beside.members.get(name).cloned().unwrap_or(Value::Null);
        let agent = self.config.agent.as_ref().ok_or_else(|| Error::internal("no agent"))?;
        let version = Which::Number(agent.version);
        let shown = app.objects().find(tenant, Sort::Agent, &agent.id, version).await?;
        let shown = shown.ok_or_else(|| Error::internal("the session's agent is gone"))?;
        let mut with_roster = agent_of_session(&shown, agent.version);
        let multiagent = roster::shown(app, tenant, &shown).await?;
        with_roster.insert("multiagent".to_owned(), multiagent);
        let environment = agent.environment.as_ref().map(|environment| &environment.id);
        Ok(json!({
            "id": self.id.to_string(),
            "type": "session",
            "agent": with_roster,
            "archived_at": beside("archived_at"),
            "created_at": self.created_at.to_string(),
            "updated_at": self.updated_at.to_string(),
            "environment_id": environment,
            "metadata": beside("metadata"),
            "outcome_evaluations": [],
            "permission_level": self.config.level,
            "resources": self.attached().iter().map(resources::shown).collect::<Vec<_>>(),
            "stats": {},
            "status": self.status(),
            "title": beside("title"),
            "usage": {},
            "vault_ids": vaults_of(&self.beside),
        }))
    }
}

/// What a session is doing, in the API's words.
pub(crate) fn status_of(state: &State) -> &'static str {
    match state {
        State::Unopened | State::Ended { .. } => "terminated",
        State::Open(open) => {
            let mut calls = open.calls().filter(|call| call.phase.is_open());
            let asks = open.waiting().next().is_some() || open.is_asked_below();
            let waits = asks && calls.all(|call| matches!(call.phase, Phase::Waiting(_)));
            match open.activity {
                Activity::Idle => "idle",
                Activity::Acting if waits => "idle",
                Activity::Acting | Activity::Thinking { .. } => "running",
            }
        }
    }
}

/// An agent within a session has no dates of its own, and its roster is the session's.
pub(crate) fn agent_of_session(agent: &Object, version: u64) -> Map<String, Value> {
    let mut shown = crate::routes::v1::agents::shown(agent);
    for absent in ["created_at", "updated_at", "archived_at", "metadata", "multiagent"] {
        shown.remove(absent);
    }
    shown.insert("version".to_owned(), version.into());
    shown
}

/// Reads what is kept beside a session's log, and whose it is, for whoever has no caller. What
/// works for a session has what is beside that.
pub(crate) async fn kept_beside(
    store: &Store,
    session: SessionId,
) -> Result<Option<(Tenant, Members)>, Error> {
    let Some(loaded) = store.load(session).await? else { return Ok(None) };
    let top = loaded.state.as_open().map_or(session, Open::root);
    let place = Sort::Session.place(&loaded.tenant, &top.to_string())?;
    let found = store.version(&place, Which::Latest).await?;
    let Some(body) = found.and_then(|version| version.body) else { return Ok(None) };
    Ok(Some((loaded.tenant, serde_json::from_slice(&body).map_err(Error::internal)?)))
}

/// The skills of those who work for an agent, by the ids of their agents.
fn roster_skills(cast: &Cast) -> Value {
    cast.roster.iter().map(|member| (member.cast.id.clone(), json!(member.cast.skills))).collect()
}

/// What is kept beside a session's log.
pub(crate) fn beside(title: Option<&str>, metadata: &Value, cast: &Cast) -> Members {
    Members::from_iter([
        ("skills".to_owned(), json!(cast.skills)),
        ("roster_skills".to_owned(), roster_skills(cast)),
        ("title".to_owned(), json!(title)),
        ("metadata".to_owned(), metadata.clone()),
    ])
}
