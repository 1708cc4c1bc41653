//! The agents to which an agent may give work.

use std::collections::BTreeSet;

use haft_core::ToolName;
use haft_store::{Tenant, Which};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::error::Error;
use crate::objects::{Object, Sort};
use crate::plan::Member;
use crate::routes::v1::agents::require_current;
use crate::session::agent_of_session;

/// How many agents a roster has at most.
const AGENTS_MAX: usize = 20;
/// The tools by which work is given away and looked after.
const TOOLS: [&str; 2] = ["session_delegate", "session_run_child"];

/// What a client says about whom an agent gives work to.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Multiagent {
    Coordinator { agents: Vec<RosterEntry> },
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum RosterEntry {
    Id(String),
    Named(NamedEntry),
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum NamedEntry {
    Agent {
        id: String,
        /// The latest, when none is named.
        version: Option<u64>,
    },
    /// The agent whose roster it is.
    #[serde(rename = "self")]
    Itself {},
    Advisor {
        model: String,
    },
}

/// The agent whose roster is declared, as it will be kept.
pub(crate) struct Owner<'a> {
    pub(crate) id: &'a str,
    pub(crate) version: u64,
    pub(crate) name: &'a str,
}

/// Checks a roster, and returns it as it is kept: every agent in a version.
pub(crate) async fn settled(
    app: &App,
    tenant: &Tenant,
    owner: &Owner<'_>,
    given: &Multiagent,
) -> Result<Value, Error> {
    let Multiagent::Coordinator { agents } = given;
    if !(1..=AGENTS_MAX).contains(&agents.len()) {
        let message = format!("multiagent.agents: expected 1 to {AGENTS_MAX} agents");
        return Err(Error::invalid(message));
    }
    let (mut ids, mut names, mut kept) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for entry in agents {
        let (id, version, name) = match entry.named(owner)? {
            // Whatever version it was, it is the one that is being declared.
            (id, _) if id == owner.id => (id, owner.version, owner.name.to_owned()),
            (id, version) => {
                let agent = current(app, tenant, id, version).await?;
                if agent.members.get("multiagent").is_some_and(|given| !given.is_null()) {
                    return Err(Error::invalid(format!(
                        "multiagent.agents: `{id}` gives work to others itself; expected agents \
                         without `multiagent`"
                    )));
                }
                let name = agent.text("name").unwrap_or_default().to_owned();
                (id, version_of(&agent), name)
            }
        };
        if !ids.insert(id) {
            return Err(Error::invalid(format!("multiagent.agents: `{id}` stands there twice")));
        }
        if !names.insert(name.clone()) {
            return Err(Error::invalid(format!(
                "multiagent.agents: two agents are called {name:?}; work is given to them by name"
            )));
        }
        kept.push(json!({ "type": "agent", "id": id, "version": version }));
    }
    Ok(json!({ "type": "coordinator", "agents": kept }))
}

impl RosterEntry {
    fn named<'a>(&'a self, owner: &Owner<'a>) -> Result<(&'a str, Option<u64>), Error> {
        match self {
            Self::Id(id) => Ok((id, None)),
            Self::Named(NamedEntry::Agent { id, version }) => Ok((id, *version)),
            Self::Named(NamedEntry::Itself {}) => Ok((owner.id, None)),
            Self::Named(NamedEntry::Advisor { model }) => {
                Err(Error::unsupported(&format!("the advisor {model:?} in `multiagent.agents`")))
            }
        }
    }
}

fn version_of(agent: &Object) -> u64 {
    agent.members.get("version").and_then(Value::as_u64).unwrap_or(agent.number)
}

/// Finds an agent that is not archived, in a version or as it is now.
pub(crate) async fn current(
    app: &App,
    tenant: &Tenant,
    id: &str,
    version: Option<u64>,
) -> Result<Object, Error> {
    let latest = app.objects().get(tenant, Sort::Agent, id).await?;
    require_current(&latest)?;
    let Some(version) = version.filter(|version| *version != version_of(&latest)) else {
        return Ok(latest);
    };
    let found = app.objects().find(tenant, Sort::Agent, id, Which::Number(version)).await?;
    let found = found.filter(|found| version_of(found) == version);
    found.ok_or_else(|| Error::not_found("version of the agent", id))
}

/// Returns the agents of an agent's roster, in their versions.
pub(crate) fn listed(agent: &Object) -> Vec<(String, u64)> {
    let agents = agent.members.get("multiagent").and_then(|given| given["agents"].as_array());
    let pinned =
        |entry: &Value| Some((entry["id"].as_str()?.to_owned(), entry["version"].as_u64()?));
    agents.into_iter().flatten().filter_map(pinned).collect()
}

/// Writes the roster of a session's agent, with all that is known of each of its agents.
pub(crate) async fn shown(app: &App, tenant: &Tenant, agent: &Object) -> Result<Value, Error> {
    let mut agents = Vec::new();
    for (id, version) in listed(agent) {
        let which = Which::Number(version);
        let found = app.objects().find(tenant, Sort::Agent, &id, which).await?;
        agents.extend(found.map(|found| agent_of_session(&found, version)));
    }
    Ok(match agents.is_empty() {
        true => Value::Null,
        false => json!({ "type": "coordinator", "agents": agents }),
    })
}

/// The tools for a session with this roster.
pub(crate) fn tools(roster: &[Member]) -> Vec<ToolName> {
    match roster.is_empty() {
        true => Vec::new(),
        false => TOOLS.iter().filter_map(|name| ToolName::new(name).ok()).collect(),
    }
}

/// What an agent is told of those to whom it may give work.
pub(crate) fn introduced(instructions: Option<String>, roster: &[Member]) -> Option<String> {
    if roster.is_empty() {
        return instructions;
    }
    let mut said = instructions.map(|instructions| instructions + "\n\n").unwrap_or_default();
    said.push_str(
        "# Agents\n\nThese agents work for you. Give each a task with `session_delegate`, by its \
         name as `agent`, with all that it must know: it has not heard this conversation. With \
         `wait` its last words are the result, and several calls at once work beside each other; \
         without, you go on and `session_run_child` tells how it stands.\n",
    );
    for Member { name, description, .. } in roster {
        said.push_str(&format!("\n- `{name}`"));
        if let Some(description) = description {
            said.push_str(&format!(": {description}"));
        }
    }
    Some(said)
}
