//! What a fresh install shows without a model's key: an agent that follows a script. The script
//! is made up; the tools, the waits and the log are real.

use haft_agent::{Script, ScriptError};
use haft_core::Actor;
use haft_store::{Expected, Tenant, Which};
use serde_json::{Value, json};

use crate::app::App;
use crate::error::{Error, Kind};
use crate::objects::{Members, Sort};
use crate::plan::{ToolParam, settled_tools};

/// The name of the demo's script.
pub(crate) const SCRIPT: &str = "demo";
const AGENT: &str = "agent_demo";
const ENVIRONMENT: &str = "env_demo";

/// Returns the script that the demo agent follows.
pub(crate) fn script() -> Result<Script, ScriptError> {
    Script::from_json(include_str!("../data/demo-script.json"))
}

/// Returns what a person may begin with in the console.
pub(crate) fn starters(agent: &str) -> Value {
    match agent {
        AGENT => json!([{
            "title": "Take the tour",
            "detail": "A question, a change that you approve, and a way back. No model, one minute.",
            "message": "Show me what you can do.",
        }]),
        _ => json!([]),
    }
}

/// Puts the demo's agent and environment there, unless they are.
pub(crate) async fn install(app: &App) -> Result<(), Error> {
    let tenant = Tenant::new("default").map_err(Error::internal)?;
    put(app, &tenant, Sort::Environment, ENVIRONMENT, environment(app)).await?;
    put(app, &tenant, Sort::Agent, AGENT, agent(app, &tenant)?).await
}

fn agent(app: &App, tenant: &Tenant) -> Result<Value, Error> {
    let tools: Vec<ToolParam> =
        serde_json::from_str(include_str!("../data/demo-tools.json")).map_err(Error::internal)?;
    Ok(json!({
        "name": "Demo (scripted)",
        "model": {"id": format!("scripted/{SCRIPT}"), "speed": "standard"},
        "description": "Follows a script, without a model.",
        "system": null,
        "tools": settled_tools(&tools, &[], &app.ground(tenant))?,
        "metadata": {}, "mcp_servers": [], "skills": [], "multiagent": null,
        "execution_identity": {"type": "service_account"},
        "version": 1, "created_at": app.now().to_string(), "archived_at": null,
    }))
}

fn environment(app: &App) -> Value {
    json!({
        "name": "Demo",
        "config": {
            "type": "cloud",
            "networking": {
                "type": "limited", "allow_mcp_servers": false, "allow_package_managers": false,
                "allowed_hosts": [],
            },
            "packages": {"apt": [], "cargo": [], "gem": [], "go": [], "npm": [], "pip": []},
        },
        "description": "A workspace without network.", "metadata": {},
        "created_at": app.now().to_string(), "archived_at": null,
    })
}

async fn put(
    app: &App,
    tenant: &Tenant,
    sort: Sort,
    id: &str,
    members: Value,
) -> Result<(), Error> {
    let members: Members = serde_json::from_value(members).map_err(Error::internal)?;
    if app.objects().find(tenant, sort, id, Which::Latest).await?.is_some() {
        return Ok(());
    }
    let place = sort.place(tenant, id)?;
    let by = Actor::system();
    match app.objects().put(place, Expected::Absent, &members, &by, app.now()).await {
        // Another node that starts at the same moment was quicker.
        Err(error) if error.kind() == Kind::Conflict => Ok(()),
        put => put.map(|_| ()),
    }
}
