//! What a fresh install shows without a model's key: an agent that follows a script.

use haft_agent::{Script, ScriptError};
use haft_core::Actor;
use haft_store::{Expected, Tenant};
use serde_json::json;

use crate::app::App;
use crate::error::Error;
use crate::objects::{Members, Sort};
use crate::plan::{ToolParam, settled_tools};

/// The name of the demo's script.
pub(crate) const SCRIPT: &str = "demo";
const AGENT: &str = "agent_demo";
const ENVIRONMENT: &str = "env_demo";

const TURNS: &str = r#"{
  "turns": [
    {"say": "I will write a greeting into a file. You are asked first.",
     "calls": [{"tool": "write", "arguments": {"file_path": "/workspace/hello.txt", "content": "Hello from Haft.\n"}}]},
    {"say": "Now I look at what is there.",
     "calls": [{"tool": "bash", "arguments": {"command": "ls -l /workspace && cat /workspace/hello.txt"}}]},
    {"say": "That was the demo: this agent follows a script and is no model. Set ANTHROPIC_API_KEY or OPENAI_API_KEY and name a model to talk to one."}
  ],
  "then": "repeat"
}"#;

/// Returns the script that the demo agent follows.
pub(crate) fn script() -> Result<Script, ScriptError> {
    Script::from_json(TURNS)
}

/// Puts the demo's agent and environment there, unless they are.
pub(crate) async fn install(app: &App) -> Result<(), Error> {
    let tenant = Tenant::new("default").map_err(Error::internal)?;
    let asks = json!({"type": "always_ask"});
    let tools: Vec<ToolParam> = serde_json::from_value(json!([{
        "type": "agent_toolset_20260401",
        "configs": [{"name": "write", "permission_policy": asks}],
    }]))
    .map_err(Error::internal)?;
    let at = app.now();
    let agent = json!({
        "name": "Demo (scripted)",
        "model": {"id": format!("scripted/{SCRIPT}"), "speed": "standard"},
        "description": "Follows a script, without a model.",
        "system": null,
        "tools": settled_tools(&tools, app.suspend_ttl())?,
        "metadata": {}, "mcp_servers": [], "skills": [], "multiagent": null,
        "execution_identity": {"type": "service_account"},
        "version": 1, "created_at": at.to_string(), "archived_at": null,
    });
    let environment = json!({
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
        "created_at": at.to_string(), "archived_at": null,
    });
    let put = async |sort: Sort, id: &str, members: serde_json::Value| {
        let members: Members = serde_json::from_value(members).map_err(Error::internal)?;
        if app.objects().find(&tenant, sort, id, haft_store::Which::Latest).await?.is_some() {
            return Ok(());
        }
        let place = sort.place(&tenant, id)?;
        let by = Actor::system();
        app.objects().put(place, Expected::Absent, &members, &by, at).await.map(|_| ())
    };
    put(Sort::Environment, ENVIRONMENT, environment).await?;
    put(Sort::Agent, AGENT, agent).await
}
