//! What sessions and agents keep for later.

use haft_core::session::{Preview, Returned};
use haft_core::{Digest, SessionId};
use haft_runtime::{ToolArguments, ToolContext, ToolError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{plain, taken};
use super::checkpoint;
use crate::hands::Hands;
use crate::memory::{Body, Mode, Target, Writing, Written, version_id};
use crate::notes;
use crate::sight::Viewer;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wanted {
    target: Target,
    session_id: Option<String>,
    version_id: Option<String>,
    limit: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WantedWrite {
    target: Option<Target>,
    content: String,
    mode: Option<Mode>,
    expected_version_id: Option<String>,
    session_id: Option<String>,
}

pub(super) async fn list(context: ToolContext) -> Result<Returned, ToolError> {
    Viewer::of(&context).await?;
    let store = |target: Target| {
        let (title, about, scope, writable) = match target {
            Target::Checkpoint => {
                ("Checkpoint", "where the session stands, as its log tells", "session", false)
            }
            Target::ShellState => {
                ("Shell state", "directory, variables by name, latest commands", "session", false)
            }
            Target::SessionState => {
                ("Session state", "what the session notes about itself", "session", true)
            }
            Target::WorkingBuffer => ("Working buffer", "what is being worked on", "session", true),
            Target::WorkspaceMemory => {
                ("Workspace memory", "MEMORY.md, which every session reads", "agent", false)
            }
            Target::WorkspaceMemoryNotes => {
                ("Workspace memory notes", "the agent's notes in MEMORY.md", "agent", true)
            }
        };
        json!({
            "target": target,
            "title": title,
            "description": about,
            "scope": scope,
            "writable": writable,
            "searchable": true,
        })
    };
    let stores = Target::ALL.map(store);
    Ok(plain(json!({ "count": stores.len(), "stores": stores })))
}

pub(super) async fn read(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: Wanted = taken(arguments)?;
    let viewer = Viewer::of(&context).await?;
    let listed = viewer.session(wanted.session_id.as_deref()).await?;
    let session = listed.session;
    let (content, version) = match wanted.target {
        Target::Checkpoint => (checkpoint::of(&viewer.look(listed).await?), None),
        Target::ShellState => (checkpoint::shell_state(&viewer, &context, session).await?, None),
        Target::WorkspaceMemory => (json!(notes::workspace_memory(&viewer, &context).await?), None),
        Target::SessionState | Target::WorkingBuffer | Target::WorkspaceMemoryNotes => {
            let kept = viewer.memory(session).latest(wanted.target).await?;
            let content = kept.as_ref().map_or("", |kept| &kept.content);
            (json!(content), kept)
        }
    };
    Ok(plain(json!({
        "sessionId": session,
        "target": wanted.target,
        "content": content,
        "versionId": version.as_ref().map(|kept| version_id(wanted.target.name(), kept.number)),
        "contentHash": version.map(|kept| kept.content_hash()),
    })))
}

pub(super) async fn list_versions(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: Wanted = taken(arguments)?;
    let viewer = Viewer::of(&context).await?;
    let session = viewer.session(wanted.session_id.as_deref()).await?.session;
    let memory = viewer.memory(session);
    let kept = memory.versions(wanted.target, wanted.limit.unwrap_or(10)).await?;
    let versions: Vec<Value> =
        kept.iter().map(|kept| kept.record(wanted.target.name(), viewer.agent())).collect();
    Ok(plain(json!({ "count": versions.len(), "versions": versions })))
}

pub(super) async fn read_version(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: Wanted = taken(arguments)?;
    let viewer = Viewer::of(&context).await?;
    let session = viewer.session(wanted.session_id.as_deref()).await?.session;
    let id = wanted.version_id.unwrap_or_default();
    let kept = viewer.memory(session).version(wanted.target, &id).await?;
    let version = kept.record(wanted.target.name(), viewer.agent());
    Ok(plain(json!({ "version": version, "content": kept.content })))
}

impl WantedWrite {
    /// Nothing secret of the session's commands is kept for later.
    async fn writing(
        self,
        source: &str,
        usual: Mode,
        context: &ToolContext,
        viewer: &Viewer,
    ) -> Writing {
        let content = match Hands::of(context).await {
            Ok(hand) => hand.secrets().masked(&self.content),
            Err(_) => self.content,
        };
        let sight = viewer.look(viewer.own.clone()).await.ok();
        let wake = sight.and_then(|sight| sight.runs.last().map(|run| run.id.to_string()));
        Writing {
            body: Body {
                content,
                session_id: viewer.own.session.to_string(),
                call_id: context.call().to_string(),
                source: source.to_owned(),
                mode: self.mode.unwrap_or(usual),
                wake_id: wake,
            },
            expected: self.expected_version_id,
            by: context.actor().clone(),
            at: context.now(),
        }
    }
}

fn written(session: SessionId, target: Target, path: &str, written: &Written) -> Value {
    let kept = &written.kept;
    let id = |number| version_id(target.name(), number);
    json!({
        "sessionId": session,
        "target": target,
        "mode": kept.body.mode,
        "path": path,
        "versionId": id(kept.number),
        "previousVersionId": written.previous.map(id),
        "contentHash": kept.content_hash(),
        "content": kept.content,
    })
}

pub(super) async fn write(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: WantedWrite = taken(arguments)?;
    let viewer = Viewer::of(&context).await?;
    let session = viewer.session(wanted.session_id.as_deref()).await?.session;
    if session != viewer.own.session {
        let own = viewer.own.session;
        return Err(ToolError::invalid(format!("a session writes its own memory only: {own}")));
    }
    let target = wanted.target.unwrap_or(Target::SessionState);
    let writing = wanted.writing("memory_write", Mode::Replace, &context, &viewer).await;
    context.require_going()?;
    let done = viewer.memory(session).write(target, &writing).await?;
    let name = match target {
        Target::WorkingBuffer => "working-buffer.md",
        _ => "session-state.md",
    };
    let path = notes::show(&context, name, done.kept.content.clone()).await;
    Ok(plain(written(session, target, &path, &done)))
}

pub(super) async fn promote_note(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: WantedWrite = taken(arguments)?;
    let viewer = Viewer::of(&context).await?;
    let session = viewer.own.session;
    let writing = wanted.writing("memory_promote_note", Mode::Append, &context, &viewer).await;
    context.require_going()?;
    let done = viewer.memory(session).write(Target::WorkspaceMemoryNotes, &writing).await?;
    let path = notes::publish(&context, &done.kept.content).await?;
    let mut answer = written(session, Target::WorkspaceMemoryNotes, &path, &done);
    let sight = viewer.look(viewer.own.clone()).await?;
    answer["outcomeEvaluation"] = match sight.goal() {
        Some(_) => json!(sight.assessment().evaluation),
        None => Value::Null,
    };
    Ok(plain(answer))
}

/// Shows the notes as they would be. Bound to the version they would follow.
pub(super) async fn preview_note(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Preview, ToolError> {
    let wanted: WantedWrite = taken(arguments)?;
    let viewer = Viewer::of(&context).await?;
    let latest = viewer.memory(viewer.own.session).latest(Target::WorkspaceMemoryNotes).await?;
    let number = latest.as_ref().map_or(0, |kept| kept.number);
    let how = match wanted.mode.unwrap_or(Mode::Append) {
        Mode::Append => "appends to",
        Mode::Replace => "replaces",
    };
    let before = latest.map_or(0, |kept| kept.content.chars().count());
    Ok(Preview {
        fingerprint: Digest::of_parts(&[&number.to_be_bytes(), wanted.content.as_bytes()]),
        targets: vec![format!("notes of the agent {}", viewer.agent())],
        diff: Some(format!("{how} {before} characters of notes:\n{}", wanted.content)),
        trouble: None,
    })
}
