//! Whom a conversation is with: an agent that is there, one for the model that was named, or the
//! demo.

use serde_json::{Map, Value, json};

use super::Choice;
use crate::api::Api;
use crate::terminal::fitted;
use crate::trouble::Trouble;
use crate::waiting::SessionWaits;

/// The agent that every install has.
const DEMO: &str = "agent_demo";

/// What an agent of the terminal is told.
const SYSTEM: &str = "You help the person at this terminal. You work in a sandbox at /workspace. \
                      Be brief.";

/// Opens a session, or finds the one to go on with; returns how much of its log is known.
pub(super) async fn session(
    api: &Api,
    choice: &Choice,
    waits: &SessionWaits,
    going_on: Option<&str>,
) -> Result<(String, u64), Trouble> {
    if let Some(id) = going_on {
        let id = api.session(id).await?;
        let head = api.get(&format!("/haft/v1/sessions/{id}")).await?["head"].as_u64();
        return Ok((id, head.unwrap_or(0)));
    }
    let agent = match (&choice.agent, &choice.model) {
        (Some(agent), _) => agent.clone(),
        (None, Some(model)) => for_model(api, model).await?,
        (None, None) => {
            let said =
                "scripted demo, no model; `-m openai/NAME` or `-m anthropic/NAME` talks to one";
            eprintln!("{}", fitted(said, 2));
            DEMO.to_owned()
        }
    };
    let mut wanted = Map::from_iter([("agent".to_owned(), agent.into())]);
    if let Some(level) = &choice.level {
        wanted.insert("permission_level".to_owned(), level.as_str().into());
    }
    waits.add_to(&mut wanted);
    let opened = api.post("/haft/v1/sessions", &Value::Object(wanted)).await?;
    Ok((opened["session"].as_str().unwrap_or_default().to_owned(), 0))
}

/// Finds the terminal's agent for a model, or makes it: it asks before it writes or runs.
async fn for_model(api: &Api, model: &str) -> Result<String, Trouble> {
    let name = format!("terminal: {model}");
    let known = api.pages("/v1/agents?limit=100", None).await?.rows;
    let known = known.iter().find(|agent| agent["name"] == name && agent["archived_at"].is_null());
    if let Some(id) = known.and_then(|agent| agent["id"].as_str()) {
        return Ok(id.to_owned());
    }
    let asks = |tool: &str| json!({ "name": tool, "permission_policy": { "type": "always_ask" } });
    let tools = json!([
        { "type": "agent_toolset_20260401", "configs": [asks("write"), asks("edit"), asks("bash")] },
        { "type": "haft_tool", "definition": ask_user() },
    ]);
    let declared = json!({ "name": name, "model": model, "system": SYSTEM, "tools": tools });
    let made = api.post("/v1/agents", &declared).await?;
    Ok(made["id"].as_str().unwrap_or_default().to_owned())
}

fn ask_user() -> Value {
    json!({
        "name": "ask_user",
        "description": "Asks the person at the terminal a question. Use when something can only be known from them.",
        "input_schema": {
            "type": "object",
            "properties": { "question": { "type": "string", "description": "What is asked." } },
            "required": ["question"], "additionalProperties": false,
        },
        "output_schema": {
            "type": "object",
            "properties": { "answer": { "type": "string", "title": "Your answer" } },
            "required": ["answer"], "additionalProperties": false,
        },
        "executor": "human",
        "display": { "label": "A question for you" },
    })
}
