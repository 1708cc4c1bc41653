//! What a session stands on: environment, setup, resources, vaults.

use haft_core::session::Returned;
use haft_runtime::{ToolArguments, ToolContext, ToolError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{plain, taken};
use super::artifacts;
use crate::hands::Hands;
use crate::setup;
use crate::sight::Viewer;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wanted {
    session_id: Option<String>,
}

pub(super) async fn environment(context: ToolContext) -> Result<Returned, ToolError> {
    let viewer = Viewer::of(&context).await?;
    let setup = setup::record(&context, &viewer).await?;
    artifacts::write(&context).await?;
    let environment = &setup["environment"];
    Ok(plain(json!({
        "id": environment["id"],
        "name": environment["name"],
        "kind": environment["kind"],
        "fingerprint": environment["fingerprint"],
        "resourceContractFingerprint": setup["resourceContract"]["fingerprint"],
        "agentSetupFingerprint": setup["fingerprint"],
        "artifactPath": artifacts::at("environment.json"),
        "agentSetupArtifactPath": artifacts::at("agent-setup.json"),
        "sandbox": environment["sandbox"],
        "workspaceMountDefaults": environment["workspaceMountDefaults"],
        "mountedResources": setup["resourceContract"]["resources"],
    })))
}

pub(super) async fn describe_setup(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: Wanted = taken(arguments)?;
    let viewer = Viewer::of(&context).await?;
    artifacts::write(&context).await?;
    let session = viewer.session(wanted.session_id.as_deref()).await?.session;
    let recorded = setup::recorded(&viewer, session).await?;
    let reason = recorded.is_none().then_some("nothing of its setup was recorded");
    Ok(plain(json!({
        "sessionId": session,
        "available": recorded.is_some(),
        "artifactPath": artifacts::at("agent-setup.json"),
        "artifactMarkdownPath": artifacts::at("agent-setup.md"),
        "agentSetup": recorded,
        "reason": reason,
    })))
}

pub(super) async fn compare_setup(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: Wanted = taken(arguments)?;
    let viewer = Viewer::of(&context).await?;
    let current = setup::record(&context, &viewer).await?;
    let session = viewer.session(wanted.session_id.as_deref()).await?.session;
    let target = setup::recorded(&viewer, session).await?.unwrap_or(Value::Null);
    let differs = |section: &&&str| {
        let of = |setup: &Value| setup["sectionFingerprints"][**section].clone();
        of(&current) != of(&target)
    };
    let changed: Vec<&&str> = setup::SECTIONS.iter().filter(differs).collect();
    let same = !current["fingerprint"].is_null() && current["fingerprint"] == target["fingerprint"];
    Ok(plain(json!({
        "currentSessionId": viewer.own.session,
        "targetSessionId": session,
        "sameSetup": same,
        "currentFingerprint": current["fingerprint"],
        "targetFingerprint": target["fingerprint"],
        "changedSections": changed,
        "currentArtifactPath": artifacts::at("agent-setup.json"),
        "targetArtifactPath": artifacts::at("agent-setup.json"),
    })))
}

/// What there is by name; no tool has a way to what is in it.
pub(super) async fn vaults(context: ToolContext) -> Result<Returned, ToolError> {
    let vaults = setup::vaults(&*Hands::of(&context).await?);
    Ok(plain(json!({ "count": vaults.len(), "vaults": vaults })))
}

pub(super) async fn resources(context: ToolContext) -> Result<Returned, ToolError> {
    let hand = Hands::of(&context).await?;
    let resources = setup::resources(&hand);
    Ok(plain(json!({ "sessionId": context.session(), "resources": resources })))
}
