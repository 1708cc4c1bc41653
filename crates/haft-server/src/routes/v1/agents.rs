//! `/v1/agents`: who works, with which model and tools. Every change is a new version.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::State;
use haft_core::Timestamp;
use haft_store::{Expected, Which};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{page, skills};
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::{Body, Params, Path, read};
use crate::keys::Scope;
use crate::mcp_toolset::{McpServerParam, checked_servers};
use crate::objects::{Members, Object, Sort};
use crate::openapi::Changes;
use crate::plan::{
    ModelParam, ToolParam, checked_metadata, reads_files, settled_level, settled_model,
    settled_tools,
};
use crate::roster::{self, Multiagent, Owner};

const SORT: Sort = Sort::Agent;
/// How many skills an agent may have.
const SKILLS_MAX: usize = 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Agent")]
pub(crate) struct Declared {
    name: String,
    model: ModelParam,
    description: Option<String>,
    system: Option<String>,
    #[serde(default)]
    tools: Option<Vec<ToolParam>>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    mcp_servers: Option<Vec<McpServerParam>>,
    skills: Option<Vec<SkillParam>>,
    multiagent: Option<Multiagent>,
    execution_identity: Option<Value>,
    /// How much is asked in its sessions: `autonomous`, `cautious` (what a tool declares is asked),
    /// `standard` or `paranoid`.
    permission_level: Option<String>,
}

/// A skill that an agent is to have, and as it is kept: then always in a version.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SkillParam {
    #[serde(rename = "type")]
    kind: String,
    pub(crate) skill_id: String,
    /// The latest, when none is named.
    pub(crate) version: Option<String>,
}

impl Declared {
    /// Checks it, and returns it as it is kept under an id, in a version.
    async fn settled(
        &self,
        app: &App,
        caller: &Caller,
        id: &str,
        version: u64,
    ) -> Result<Members, Error> {
        if !(1..=256).contains(&self.name.chars().count()) {
            return Err(Error::invalid("name: expected 1 to 256 characters"));
        }
        let ground = &app.ground(&caller.tenant);
        let servers = self.mcp_servers.as_deref().unwrap_or_default();
        checked_servers(servers, &ground.mounted)?;
        let identity = json!({ "type": "service_account" });
        if self.execution_identity.as_ref().is_some_and(|given| *given != identity) {
            return Err(Error::unsupported("an `execution_identity` other than the server's"));
        }
        checked_metadata(&self.metadata)?;
        let tools = self.tools.as_deref().unwrap_or_default();
        let skills = self.settled_skills(app, caller).await?;
        let multiagent = match &self.multiagent {
            Some(given) => {
                let owner = Owner { id, version, name: &self.name };
                Some(roster::settled(app, &caller.tenant, &owner, given).await?)
            }
            None => None,
        };
        let kept = json!({
            "name": self.name,
            "model": settled_model(&self.model)?,
            "description": self.description,
            "system": self.system,
            "tools": settled_tools(tools, servers, ground)?,
            "metadata": self.metadata,
            "mcp_servers": servers,
            "skills": skills,
            "multiagent": multiagent,
            "execution_identity": identity,
            "permission_level": settled_level(self.permission_level.as_deref())?,
        });
        match kept {
            Value::Object(members) => Ok(members),
            _ => Err(Error::internal("an agent is an object")),
        }
    }

    /// An agent keeps the versions that its skills had when it was declared.
    async fn settled_skills(&self, app: &App, caller: &Caller) -> Result<Vec<SkillParam>, Error> {
        let given = self.skills.as_deref().unwrap_or_default();
        if given.len() > SKILLS_MAX {
            return Err(Error::invalid(format!("skills: expected at most {SKILLS_MAX}")));
        }
        if !given.is_empty() && !reads_files(self.tools.as_deref().unwrap_or_default()) {
            return Err(Error::invalid(
                "skills: an agent reads a skill with `read` or `bash` of `agent_toolset_20260401` or \
                 `haft_toolset`; add one of them to `tools`",
            ));
        }
        let (mut settled, mut names) = (Vec::with_capacity(given.len()), BTreeSet::new());
        for SkillParam { kind, skill_id, version } in given {
            if kind != "custom" {
                return Err(Error::unsupported(&format!("a skill of type {kind:?}")));
            }
            let found = skills::version(app, caller, skill_id, version.as_deref()).await?;
            let name = found.text("name").unwrap_or_default().to_owned();
            if !names.insert(name.clone()) {
                return Err(Error::invalid(format!("skills: two skills are called `{name}`")));
            }
            let (kind, skill_id) = (kind.clone(), skill_id.clone());
            settled.push(SkillParam { kind, skill_id, version: Some(found.id) });
        }
        Ok(settled)
    }
}

/// Writes an agent as the API shows it.
pub(crate) fn shown(agent: &Object) -> Map<String, Value> {
    let mut shown = Map::new();
    shown.insert("id".to_owned(), agent.id.clone().into());
    shown.insert("type".to_owned(), "agent".into());
    shown.extend(agent.members.clone());
    shown.insert("updated_at".to_owned(), agent.at.to_string().into());
    shown
}

fn version_of(agent: &Object) -> u64 {
    agent.members.get("version").and_then(Value::as_u64).unwrap_or(agent.number)
}

/// Adds what the server knows about an agent to what was declared.
fn stamped(mut members: Members, version: u64, created_at: &str, archived: Value) -> Members {
    members.insert("version".to_owned(), version.into());
    members.insert("created_at".to_owned(), created_at.into());
    members.insert("archived_at".to_owned(), archived);
    members
}

pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    Body(declared): Body<Declared>,
) -> Result<Json<Map<String, Value>>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let id = app.fresh_id(SORT.prefix())?;
    let members = declared.settled(&app, &caller, &id, 1).await?;
    let agent = put_first(&app, &caller, id, members).await?;
    Ok(Json(shown(&agent)))
}

/// Keeps an agent that was not there before.
async fn put_first(
    app: &App,
    caller: &Caller,
    id: String,
    members: Members,
) -> Result<Object, Error> {
    let at = app.now();
    let members = stamped(members, 1, &at.to_string(), Value::Null);
    let place = SORT.place(&caller.tenant, &id)?;
    let by = &caller.actor;
    let number = app.objects().put(place, Expected::Absent, &members, by, at).await?;
    Ok(Object { id, number, members, at })
}

pub(crate) async fn retrieve(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    mut params: Params,
) -> Result<Json<Map<String, Value>>, Error> {
    caller.require(Scope::Read)?;
    let version = params.one::<u64>("version")?;
    params.finish()?;
    let latest = app.objects().get(&caller.tenant, SORT, &id).await?;
    let Some(version) = version.filter(|version| *version != version_of(&latest)) else {
        return Ok(Json(shown(&latest)));
    };
    let found = app.objects().find(&caller.tenant, SORT, &id, Which::Number(version)).await?;
    let found = found.filter(|found| version_of(found) == version);
    let found = found.ok_or_else(|| Error::not_found("version of the agent", &id))?;
    Ok(Json(shown(&found)))
}

pub(crate) async fn update(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
    Body(Changes { members: mut changes, .. }): Body<Changes<Declared>>,
) -> Result<Json<Map<String, Value>>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let agent = app.objects().get(&caller.tenant, SORT, &id).await?;
    require_current(&agent)?;
    let version = version_of(&agent);
    if let Some(seen) = changes.remove("version")
        && seen.as_u64() != Some(version)
    {
        let message = format!("the agent is at version {version}, not at {seen}");
        return Err(Error::conflict(message));
    }
    let declared: Declared = read(changed(&agent, changes))?;
    let members = declared.settled(&app, &caller, &id, version + 1).await?;
    let created_at = agent.text("created_at").unwrap_or_default();
    let members = stamped(members, version + 1, created_at, Value::Null);
    let (at, by) = (app.now(), &caller.actor);
    let place = SORT.place(&caller.tenant, &id)?;
    let expected = Expected::Version(agent.number);
    let number = app.objects().put(place, expected, &members, by, at).await?;
    Ok(Json(shown(&Object { id, number, members, at })))
}

/// What an agent declares after a change: what is left out stays, `null` clears.
fn changed(agent: &Object, changes: Map<String, Value>) -> Value {
    let mut declared = agent.members.clone();
    for known in ["version", "created_at", "archived_at"] {
        declared.remove(known);
    }
    for (name, value) in changes {
        let value = match (name.as_str(), value) {
            ("metadata", given) => merged(declared.remove("metadata"), given),
            (_, value) => value,
        };
        declared.insert(name, value);
    }
    Value::Object(declared)
}

/// Pairs are added, replaced, and taken away by `null`.
pub(crate) fn merged(metadata: Option<Value>, changes: Value) -> Value {
    let Value::Object(changes) = changes else {
        return if changes.is_null() { json!({}) } else { changes };
    };
    let mut merged = match metadata {
        Some(Value::Object(members)) => members,
        _ => Map::new(),
    };
    for (key, value) in changes {
        match value.is_null() {
            true => merged.remove(&key),
            false => merged.insert(key, value),
        };
    }
    Value::Object(merged)
}

pub(crate) fn require_current(object: &Object) -> Result<(), Error> {
    match object.is_archived() {
        true => Err(Error::invalid(format!("`{}` is archived", object.id))),
        false => Ok(()),
    }
}

pub(crate) async fn archive(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<Map<String, Value>>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let agent = app.objects().get(&caller.tenant, SORT, &id).await?;
    let agent = archived(&app, &caller, SORT, agent).await?;
    Ok(Json(shown(&agent)))
}

/// Archives a named thing; one that is archived already stays as it is.
pub(crate) async fn archived(
    app: &App,
    caller: &Caller,
    sort: Sort,
    object: Object,
) -> Result<Object, Error> {
    if object.is_archived() {
        return Ok(object);
    }
    let at: Timestamp = app.now();
    let mut members = object.members.clone();
    members.insert("archived_at".to_owned(), at.to_string().into());
    let place = sort.place(&caller.tenant, &object.id)?;
    let expected = Expected::Version(object.number);
    let number = app.objects().put(place, expected, &members, &caller.actor, at).await?;
    Ok(Object { number, members, at, ..object })
}

pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    let limit = params.limit(20, 100)?;
    let after = params.text("page");
    let all = params.one::<bool>("include_archived")?.unwrap_or(false);
    params.finish()?;
    let wanted = |agent: &Object| all || !agent.is_archived();
    let (agents, next) = app.objects().list(&caller.tenant, SORT, after, limit, wanted).await?;
    Ok(Json(page(agents.iter().map(|agent| shown(agent).into()).collect(), next)))
}

pub(crate) async fn versions(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    let limit = params.limit(20, 100)?;
    let before = params.one::<u64>("page")?;
    params.finish()?;
    let latest = app.objects().get(&caller.tenant, SORT, &id).await?;
    let first = before.unwrap_or_else(|| version_of(&latest) + 1).saturating_sub(1);
    let last = first.saturating_sub(u64::from(limit)) + 1;
    let mut data = Vec::new();
    for version in (last..=first).rev() {
        let found = app.objects().find(&caller.tenant, SORT, &id, Which::Number(version)).await?;
        data.extend(found.map(|agent| Value::Object(shown(&agent))));
    }
    let next = (last > 1).then(|| last.to_string());
    Ok(Json(page(data, next)))
}
