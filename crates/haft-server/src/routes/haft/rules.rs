//! What is decided about the tools of an agent, or of this node, before any call is made.

use axum::Json;
use axum::extract::State;
use haft_core::session::Config;
use haft_runtime::{PolicyFile, Ruled};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::{Body, Params, read};
use crate::keys::Scope;
use crate::objects::Sort;
use crate::plan::{settled_level, terms};

/// For each tool the verdict and the rules that it follows from. They are edited where they are
/// kept: in the agent's tools, as a new version of it.
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    let id = params.text("agent");
    params.finish()?;
    let (agent, config) = of_agent(&app, &caller, id.as_deref()).await?;
    let rules = app.haft().rules(&config);
    let theirs = rules.iter().filter(|rule| rule.tool.is_shown_to(&caller.tenant));
    let data: Vec<Value> = theirs.map(|rule| shown(&config, rule)).collect();
    let policies = app.haft().policies();
    Ok(Json(json!({
        "agent": agent, "level": config.level, "policies": policies, "data": data,
    })))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SupposedCall")]
pub(super) struct Supposed {
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    /// Whose session it would be made in; without one, a session with every tool of this node.
    agent: Option<String>,
    /// A policy file, in TOML, whose rules are heard beside those that stand.
    policy: Option<String>,
}

/// What would be decided about a call, and why. Nothing is run and nobody is asked.
pub(super) async fn check(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    Body(supposed): Body<Supposed>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    let Supposed { tool, arguments, agent, policy } = supposed;
    let file = policy.as_deref().map(str::parse::<PolicyFile>).transpose();
    let file = file.map_err(|error| Error::invalid(format!("policy: {error}")))?;
    let (agent, config) = of_agent(&app, &caller, agent.as_deref()).await?;
    let file = file.unwrap_or_default();
    let ruled = app.haft().weigh(&config, &caller.actor, (&tool, &arguments), &file).await;
    let ruled = ruled.ok().filter(|ruled| ruled.tool.is_shown_to(&caller.tenant));
    let ruled = ruled.ok_or_else(|| Error::not_found("tool", &tool))?;
    let mut answer = shown(&config, &ruled);
    answer["agent"] = agent;
    answer["preconditions"] = json!(ruled.tool.spec().preconditions);
    Ok(Json(answer))
}

/// What sessions of an agent are configured as, and which agent that is.
async fn of_agent(app: &App, caller: &Caller, id: Option<&str>) -> Result<(Value, Config), Error> {
    let Some(id) = id else { return Ok((Value::Null, Config::default())) };
    let agent = app.objects().get(&caller.tenant, Sort::Agent, id).await?;
    let member = |name: &str| agent.members.get(name).cloned().unwrap_or_default();
    let shown = json!({ "id": id, "name": member("name"), "version": member("version") });
    let tools = read::<Vec<_>>(member("tools"))?;
    let servers = read::<Vec<_>>(member("mcp_servers"))?;
    let level = settled_level(agent.text("permission_level"))?;
    Ok((shown, terms(&tools, &servers, level, &app.ground(&caller.tenant))?))
}

fn shown(config: &Config, Ruled { tool, derivation }: &Ruled) -> Value {
    let contract = tool.spec().contract();
    json!({
        "tool": tool.name(), "called": config.toolset.called(tool.name().as_str()),
        "mode": contract.mode, "gate": contract.gate,
        "decision": derivation.decision, "findings": derivation.findings,
    })
}
