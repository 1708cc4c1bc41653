//! What is decided about the tools of an agent, or of this node, before any call is made.

use axum::Json;
use axum::extract::State;
use haft_core::session::Config;
use haft_runtime::Ruled;
use serde_json::{Value, json};

use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::{Params, read};
use crate::keys::Scope;
use crate::objects::Sort;
use crate::plan::terms;

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
    let (agent, config) = match &id {
        None => (Value::Null, Config::default()),
        Some(id) => {
            let agent = app.objects().get(&caller.tenant, Sort::Agent, id).await?;
            let member = |name: &str| agent.members.get(name).cloned().unwrap_or_default();
            let shown = json!({ "id": id, "name": member("name"), "version": member("version") });
            let tools = read::<Vec<_>>(member("tools"))?;
            let servers = read::<Vec<_>>(member("mcp_servers"))?;
            (shown, terms(&tools, &servers, &app.ground(&caller.tenant))?)
        }
    };
    let data: Vec<Value> =
        app.haft().rules(&config).iter().map(|rule| shown(&config, rule)).collect();
    let policies = app.haft().policies();
    Ok(Json(json!({
        "agent": agent, "level": config.level, "policies": policies, "data": data,
    })))
}

fn shown(config: &Config, Ruled { tool, derivation }: &Ruled) -> Value {
    let contract = tool.spec().contract();
    json!({
        "tool": tool.name(), "called": config.toolset.called(tool.name().as_str()),
        "mode": contract.mode, "gate": contract.gate,
        "decision": derivation.decision, "findings": derivation.findings,
    })
}
