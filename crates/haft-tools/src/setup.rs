//! What a session's work is set up with: recorded when it first matters, and when it changes, so
//! that a later session can tell whether an earlier one stood on the same ground.

use haft_core::session::Open;
use haft_core::{Digest, SessionId};
use haft_runtime::{ToolContext, ToolError};
use haft_sandbox::mounts::Access;
use haft_sandbox::policy::Network;
use haft_store::{Expected, Place, Put, Which};
use serde_json::{Map, Value, json};

use crate::hands::{Hand, Hands};
use crate::library::Library;
use crate::sight::Viewer;
use crate::substrate::Substrate;
use crate::tools::apart;

const SPACE: &str = "agent-setup";
/// What two setups are compared by.
pub(crate) const SECTIONS: [&str; 6] =
    ["system_prompt", "tools", "skills", "environment", "resource_contract", "vaults"];
/// The substrate's files that an agent starts from.
const BOOTSTRAP: [&str; 8] = [
    "AGENTS.md",
    "SOUL.md",
    "TOOLS.md",
    "IDENTITY.md",
    "USER.md",
    "HEARTBEAT.md",
    "BOOTSTRAP.md",
    "MEMORY.md",
];

fn place(viewer: &Viewer, session: SessionId) -> Result<Place, ToolError> {
    Ok(Place::new(viewer.own.tenant.clone(), SPACE, &session.to_string())?)
}

/// The recorded setup of a session; `None` when none was recorded.
pub(crate) async fn recorded(
    viewer: &Viewer,
    session: SessionId,
) -> Result<Option<Value>, ToolError> {
    let stored = viewer.store().version(&place(viewer, session)?, Which::Latest).await?;
    let Some(body) = stored.and_then(|stored| stored.body) else { return Ok(None) };
    let unreadable =
        |error| ToolError::internal(format!("a recorded setup cannot be read: {error}"));
    serde_json::from_slice(&body).map(Some).map_err(unreadable)
}

/// What tells one setup from another.
pub(crate) async fn fingerprint(
    viewer: &Viewer,
    session: SessionId,
) -> Result<Option<String>, ToolError> {
    let recorded = recorded(viewer, session).await?;
    Ok(recorded.and_then(|setup| setup["fingerprint"].as_str().map(str::to_owned)))
}

/// The setup of the session that a call runs for, recorded if it is not as it was.
pub(crate) async fn record(context: &ToolContext, viewer: &Viewer) -> Result<Value, ToolError> {
    let setup = current(context, viewer).await?;
    let session = viewer.own.session;
    if fingerprint(viewer, session).await?.as_deref() != setup["fingerprint"].as_str() {
        let body = serde_json::to_vec(&setup).unwrap_or_default();
        let (place, expected) = (place(viewer, session)?, Expected::Anything);
        let put = Put { place, expected, body: Some(body) };
        let by = haft_core::Actor::system();
        viewer.store().put_versions(vec![put], &by, context.now()).await?;
    }
    Ok(setup)
}

async fn current(context: &ToolContext, viewer: &Viewer) -> Result<Value, ToolError> {
    let loaded = viewer.store().load(viewer.own.session).await?;
    let state = loaded.map(|loaded| loaded.state).unwrap_or_default();
    let open = state.as_open().ok_or_else(|| ToolError::new("the session has ended"))?;
    let hand = Hands::of(context).await.ok();
    let library = Library::of(context, viewer.agent());
    let agent = open.config.agent.as_ref();
    let instructions = agent.and_then(|agent| agent.instructions.as_deref()).unwrap_or_default();
    let bootstrap = bootstrap(hand.as_deref()).await;
    let resources = hand.as_deref().map(resources).unwrap_or_default();
    let mut setup = json!({
        "sessionId": viewer.own.session,
        "agentId": viewer.agent(),
        "model": agent.map(|agent| &agent.model),
        "agentVersion": agent.map(|agent| agent.version),
        "systemPrompt": {
            "sections": [{ "name": "instructions", "chars": instructions.chars().count(), "fingerprint": hash(&json!(instructions)) }],
            "bootstrapFiles": bootstrap,
        },
        "tools": tools(context, open),
        "skills": library.skills_listing(),
        "environment": environment(open, hand.as_deref()),
        "resourceContract": { "resources": resources, "fingerprint": hash(&json!(resources)) },
        "permissions": permissions(context, open),
        "vaults": hand.as_deref().map(vaults).unwrap_or_default(),
    });
    let parts = ["systemPrompt", "tools", "skills", "environment", "resourceContract", "vaults"];
    let fingerprints: Map<String, Value> = SECTIONS
        .iter()
        .zip(parts)
        .map(|(section, part)| ((*section).to_owned(), json!(hash(&setup[part]))))
        .collect();
    setup["fingerprint"] =
        json!(hash(&json!([&fingerprints, setup["model"], setup["permissions"]])));
    setup["sectionFingerprints"] = Value::Object(fingerprints);
    Ok(setup)
}

fn hash(value: &Value) -> String {
    Digest::of_json(value).to_string()
}

fn tools(context: &ToolContext, open: &Open) -> Vec<Value> {
    let offered = context.tools().advertise(&open.config.exposure);
    offered
        .tools()
        .iter()
        .map(|tool| {
            let contract = tool.spec().contract();
            json!({
                "name": tool.name(),
                "permissionPolicy": if contract.gate.asks() { "always_ask" } else { "always_allow" },
                "fingerprint": contract.digest.to_string(),
            })
        })
        .collect()
}

/// Which tools ask, and which do not.
pub(crate) fn permissions(context: &ToolContext, open: &Open) -> Value {
    let (mut asks, mut allows) = (Vec::new(), Vec::new());
    for tool in context.tools().advertise(&open.config.exposure).tools().iter() {
        let list = if tool.spec().gate.asks() { &mut asks } else { &mut allows };
        list.push(tool.name().to_string());
    }
    json!({ "alwaysAskTools": asks, "alwaysAllowTools": allows })
}

/// Where commands run, and what they may reach.
pub(crate) fn environment(open: &Open, hand: Option<&Hand>) -> Value {
    let declared = open.config.agent.as_ref().and_then(|agent| agent.environment.as_ref());
    let id = declared.map_or("local-default", |environment| environment.id.as_str());
    let network = match hand.map(|hand| &hand.workspace().network) {
        Some(Network::Host | Network::Gateway(_)) => "enabled",
        Some(Network::Off) | None => "disabled",
    };
    let home = hand.map(|hand| hand.workspace().home.to_string());
    let mut environment = json!({
        "id": id,
        "name": id,
        "kind": "local",
        "sandbox": {
            "mode": if hand.is_some() { "workspace" } else { "off" },
            "workspaceAccess": if hand.is_some() { "rw" } else { "none" },
            "networkAccess": network,
            "packagePolicy": "none",
        },
        "workspaceMountDefaults": { "workspacePath": home, "runtimePath": home.as_ref().map(|home| format!("{home}/.haft-runtime")) },
    });
    environment["fingerprint"] = json!(hash(&environment));
    environment
}

/// What is mounted, and how.
pub(crate) fn resources(hand: &Hand) -> Vec<Value> {
    let home = &hand.workspace().home;
    let shared = home.join("agent".as_ref());
    let roots = hand.workspace().mounts.roots();
    roots
        .map(|root| {
            let (kind, scope) = match &root.at {
                at if at == home => ("session_workspace", "session"),
                at if *at == shared => ("agent_workspace_substrate", "agent"),
                _ => ("local_file", "session"),
            };
            let access = match root.access {
                Access::ReadOnly => "read_only",
                Access::ReadWrite => "read_write",
            };
            json!({ "id": root.at.to_string(), "kind": kind, "mountPath": root.at.to_string(), "access": access, "scope": scope })
        })
        .collect()
}

/// The vaults by name; what is in them is nobody's to read.
pub(crate) fn vaults(hand: &Hand) -> Vec<Value> {
    let vaults = hand.workspace().vaults.iter();
    vaults
        .map(|vault| {
            json!({
                "vaultName": vault.name,
                "mountPath": format!("/vaults/{}", vault.name),
                "access": "read_only",
                "scope": "session",
                "prompt": vault.prompt,
            })
        })
        .collect()
}

async fn bootstrap(hand: Option<&Hand>) -> Vec<Value> {
    let Some(substrate) = hand.and_then(|hand| Substrate::of(hand).ok()) else { return Vec::new() };
    let read = apart(move || {
        let read = BOOTSTRAP.iter().filter_map(|name| {
            let content = substrate.read(name).ok()??;
            let (chars, print) = (content.len(), Digest::of_bytes(&content).to_string());
            Some(json!({ "path": name, "bytes": chars, "fingerprint": print }))
        });
        Ok(read.collect())
    });
    read.await.unwrap_or_default()
}
