//! Taking shared files into the workspace, and bringing them back.

use std::sync::Arc;

use haft_core::Digest;
use haft_core::session::{Preview, Returned};
use haft_runtime::{ToolArguments, ToolContext, ToolError};
use haft_sandbox::files::{Expected, Parents};
use haft_sandbox::virtual_path::VirtualPath;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{apart, plain, taken};
use crate::hands::{Hand, Hands};
use crate::memory::{content_hash, version_id};
use crate::notes;
use crate::sight::Viewer;
use crate::staged::{Draft, Seen, Shelf, absent, drafts, keep_drafts, not_text};
use crate::substrate::Substrate;

const BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WantedStage {
    source_path: String,
    target_path: Option<String>,
    #[serde(default)]
    overwrite: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WantedCompare {
    session_path: String,
    substrate_path: Option<String>,
    max_preview_lines: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WantedPromote {
    source_path: String,
    target_path: Option<String>,
    overwrite: Option<bool>,
    #[serde(flatten)]
    seen: Seen,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WantedVersions {
    target_path: String,
    limit: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WantedVersion {
    version_id: String,
    #[serde(flatten)]
    seen: Seen,
}

/// Where drafts and shared files are.
struct Desk {
    viewer: Viewer,
    hand: Arc<Hand>,
    substrate: Substrate,
}

impl Desk {
    async fn of(context: &ToolContext) -> Result<Self, ToolError> {
        let viewer = Viewer::of(context).await?;
        let hand = Hands::of(context).await?;
        let substrate = Substrate::of(&hand)?;
        Ok(Self { viewer, hand, substrate })
    }

    fn shelf<'a>(&'a self, context: &'a ToolContext) -> Shelf<'a> {
        Shelf::new(&self.viewer, context, self.substrate.clone())
    }

    /// A file of the session, which is not a shared one.
    fn draft(&self, path: &str) -> Result<VirtualPath, ToolError> {
        let path = self.hand.path(path)?;
        let shared = self.hand.workspace().home.join("agent".as_ref());
        if path.starts_with(&shared) {
            return Err(ToolError::invalid(format!(
                "`{path}` is shared; name a file of the session"
            )));
        }
        Ok(path)
    }

    async fn read(&self, path: &VirtualPath) -> Result<Option<Vec<u8>>, ToolError> {
        let (hand, path) = (Arc::clone(&self.hand), path.clone());
        apart(move || Ok(absent(hand.files().read_all(&path, BYTES_MAX))?)).await
    }

    async fn text(&self, path: &VirtualPath) -> Result<String, ToolError> {
        let content = self.read(path).await?;
        let content =
            content.ok_or_else(|| ToolError::invalid(format!("there is no file `{path}`")))?;
        String::from_utf8(content).map_err(|_| not_text(&path.to_string()))
    }

    /// The shared file that a draft is of: the one it was staged from, or the one of its name.
    async fn of_draft(
        &self,
        draft: &VirtualPath,
        named: Option<&str>,
    ) -> Result<String, ToolError> {
        if let Some(named) = named {
            return self.substrate.key(named);
        }
        let staged = drafts(&self.viewer).await?;
        if let Some(staged) = staged.get(&draft.to_string()) {
            return Ok(staged.substrate_path.clone());
        }
        let home = format!("{}/", self.hand.workspace().home);
        let text = draft.to_string();
        self.substrate.key(text.strip_prefix(&home).unwrap_or(&text))
    }
}

pub(super) async fn stage(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: WantedStage = taken(arguments)?;
    let desk = Desk::of(&context).await?;
    let key = desk.substrate.key(&wanted.source_path)?;
    let shared = desk.shelf(&context).shared(&key).await?;
    let source = shared
        .content
        .ok_or_else(|| ToolError::invalid(format!("there is no shared file `{key}`")))?;
    let draft = desk.draft(wanted.target_path.as_deref().unwrap_or(&key))?;
    let mut staged = drafts(&desk.viewer).await?;
    let existing = desk.read(&draft).await?;
    let same_source = staged.get(&draft.to_string()).is_some_and(|one| one.substrate_path == key);
    let reused = existing.is_some() && same_source && !wanted.overwrite;
    if existing.is_some() && !reused && !wanted.overwrite {
        return Err(ToolError::invalid(format!("`{draft}` exists; `overwrite` would replace it")));
    }
    let source_hash = content_hash(&source);
    let kept = existing.as_ref().filter(|_| reused);
    let target = kept.cloned().unwrap_or_else(|| source.clone());
    if !reused {
        context.require_going()?;
        let (hand, path) = (Arc::clone(&desk.hand), draft.clone());
        let (content, expected) = (source, existing_as(existing.as_deref()));
        apart(move || {
            hand.files().write(&path, &content, expected, Parents::Create)?;
            Ok(())
        })
        .await?;
        let (substrate_path, staged_at) = (key.clone(), context.now());
        let one = Draft { substrate_path, staged_at, source_hash: source_hash.clone() };
        staged.insert(draft.to_string(), one);
        keep_drafts(&desk.viewer, &staged, context.now()).await?;
        notes::show(&context, "staged-substrate.json", format!("{:#}\n", json!(staged))).await;
    }
    let target_hash = content_hash(&target);
    Ok(plain(json!({
        "sessionId": desk.viewer.own.session,
        "sourcePath": key,
        "targetPath": draft.to_string(),
        "bytes": target.len(),
        "reusedExisting": reused,
        "divergedFromSource": target_hash != source_hash,
        "sourceContentHash": source_hash,
        "targetContentHash": target_hash,
    })))
}

fn existing_as(existing: Option<&[u8]>) -> Expected {
    existing.map_or(Expected::Absent, |content| {
        Expected::Content(haft_sandbox::files::ContentHash::of(content))
    })
}

pub(super) async fn list_drafts(context: ToolContext) -> Result<Returned, ToolError> {
    let desk = Desk::of(&context).await?;
    let shelf = desk.shelf(&context);
    let mut listed = Vec::new();
    for (path, draft) in drafts(&desk.viewer).await? {
        let content = desk.read(&desk.draft(&path)?).await?;
        let shared = shelf.shared(&draft.substrate_path).await?;
        let (hash, shared_hash) = (content.as_deref().map(content_hash), shared.hash());
        let status = match (&hash, &shared_hash) {
            (None, _) => "draft_missing",
            (_, None) => "substrate_missing",
            (one, other) if one == other => "in_sync",
            _ => "ready",
        };
        listed.push(json!({
            "sessionPath": path,
            "substratePath": draft.substrate_path,
            "stagedAt": draft.staged_at.to_string(),
            "draftExists": hash.is_some(),
            "substrateExists": shared_hash.is_some(),
            "draftContentHash": hash,
            "substrateContentHash": shared_hash,
            "sourceChangedSinceStage": shared_hash.as_deref() != Some(&draft.source_hash),
            "draftChangedSinceStage": hash.as_deref() != Some(&draft.source_hash),
            "status": status,
        }));
    }
    Ok(plain(json!({ "count": listed.len(), "drafts": listed })))
}

pub(super) async fn compare(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: WantedCompare = taken(arguments)?;
    let desk = Desk::of(&context).await?;
    let draft = desk.draft(&wanted.session_path)?;
    let key = desk.of_draft(&draft, wanted.substrate_path.as_deref()).await?;
    let ours = desk.text(&draft).await?;
    let shared = desk.shelf(&context).shared(&key).await?;
    let theirs = shared.content.as_deref().map(String::from_utf8_lossy);
    let theirs_text = theirs.as_deref().unwrap_or_default();
    let (n_differing, preview) =
        differing(&ours, theirs_text, wanted.max_preview_lines.unwrap_or(12));
    let (hash, latest) = (shared.hash(), shared.latest.as_ref());
    let latest_id = latest.map(|kept| version_id(&key, kept.number));
    Ok(plain(json!({
        "sessionId": desk.viewer.own.session,
        "sessionPath": draft.to_string(),
        "substratePath": key,
        "substrateExists": hash.is_some(),
        "identical": hash.as_deref() == Some(&content_hash(ours.as_bytes())),
        "sessionCharCount": ours.chars().count(),
        "substrateCharCount": theirs_text.chars().count(),
        "sessionContentHash": content_hash(ours.as_bytes()),
        "substrateContentHash": hash,
        "latestVersionId": latest_id,
        "latestVersionCreatedAt": latest.map(|kept| kept.at.to_string()),
        "latestVersionContentHash": latest.map(crate::memory::Kept::content_hash),
        "latestVersionWakeId": latest.and_then(|kept| kept.body.wake_id.clone()),
        "promotePrecondition": {
            "expectedVersionId": latest_id,
            "expectedContentHash": hash,
            "versionAvailable": latest_id.is_some(),
            "contentHashAvailable": hash.is_some(),
        },
        "differingLineCount": n_differing,
        "preview": preview,
    })))
}

/// The lines that differ, after those that both begin and end with.
fn differing(ours: &str, theirs: &str, most: usize) -> (usize, Vec<Value>) {
    let (ours, theirs): (Vec<&str>, Vec<&str>) = (ours.lines().collect(), theirs.lines().collect());
    let same = |(one, other): &(&&str, &&str)| one == other;
    let head = ours.iter().zip(&theirs).take_while(same).count();
    let (ours, theirs) =
        (ours.get(head..).unwrap_or_default(), theirs.get(head..).unwrap_or_default());
    let tail = ours.iter().rev().zip(theirs.iter().rev()).take_while(same).count();
    let ours = ours.get(..ours.len() - tail).unwrap_or_default();
    let theirs = theirs.get(..theirs.len() - tail).unwrap_or_default();
    let n = ours.len().max(theirs.len());
    let line = |at: usize| json!({ "line": head + at + 1, "session": ours.get(at), "substrate": theirs.get(at) });
    (n, (0..n.min(most)).map(line).collect())
}

async fn evaluation(desk: &Desk) -> Result<Value, ToolError> {
    let sight = desk.viewer.look(desk.viewer.own.clone()).await?;
    Ok(match sight.goal() {
        Some(_) => json!(sight.assessment().evaluation),
        None => Value::Null,
    })
}

pub(super) async fn promote(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: WantedPromote = taken(arguments)?;
    let desk = Desk::of(&context).await?;
    let draft = desk.draft(&wanted.source_path)?;
    let key = desk.of_draft(&draft, wanted.target_path.as_deref()).await?;
    let content = desk.hand.secrets().masked(&desk.text(&draft).await?);
    let shelf = desk.shelf(&context);
    if wanted.overwrite == Some(false) && shelf.shared(&key).await?.content.is_some() {
        return Err(ToolError::invalid(format!("the shared file `{key}` exists")));
    }
    context.require_going()?;
    let bytes = content.len();
    let (kept, previous) =
        shelf.write(&key, content, "resources_promote_to_substrate", &wanted.seen).await?;
    Ok(plain(json!({
        "sessionId": desk.viewer.own.session,
        "sourcePath": draft.to_string(),
        "targetPath": key,
        "bytes": bytes,
        "versionId": version_id(&key, kept.number),
        "previousVersionId": previous.map(|number| version_id(&key, number)),
        "contentHash": kept.content_hash(),
        "outcomeEvaluation": evaluation(&desk).await?,
    })))
}

/// Shows what the shared file would become. Bound to draft and file as they are.
pub(super) async fn preview_promote(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Preview, ToolError> {
    let wanted: WantedPromote = taken(arguments)?;
    let desk = Desk::of(&context).await?;
    let draft = desk.draft(&wanted.source_path)?;
    let key = desk.of_draft(&draft, wanted.target_path.as_deref()).await?;
    let ours = desk.text(&draft).await?;
    let shared = desk.shelf(&context).shared(&key).await?;
    Ok(shown(&key, &ours, shared.content.as_deref()))
}

fn shown(key: &str, ours: &str, theirs: Option<&[u8]>) -> Preview {
    let text = String::from_utf8_lossy(theirs.unwrap_or_default());
    let (n, lines) = differing(ours, &text, 40);
    let mut diff = match theirs {
        Some(_) => format!("{n} lines of the shared file {key} change\n"),
        None => format!("the shared file {key} is new\n"),
    };
    for line in &lines {
        let (number, word) = (&line["line"], |member: &str| line[member].as_str());
        word("substrate").into_iter().for_each(|old| diff.push_str(&format!("{number} - {old}\n")));
        word("session").into_iter().for_each(|new| diff.push_str(&format!("{number} + {new}\n")));
    }
    Preview {
        fingerprint: Digest::of_parts(&[ours.as_bytes(), theirs.unwrap_or(b"absent")]),
        targets: vec![format!("agent/{key}")],
        diff: Some(diff),
        trouble: None,
    }
}

pub(super) async fn list_versions(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: WantedVersions = taken(arguments)?;
    let desk = Desk::of(&context).await?;
    let key = desk.substrate.key(&wanted.target_path)?;
    let kept = desk.shelf(&context).versions(&key, wanted.limit.unwrap_or(10)).await?;
    let versions: Vec<Value> =
        kept.iter().map(|kept| kept.record(&key, desk.viewer.agent())).collect();
    Ok(plain(json!({ "count": versions.len(), "versions": versions })))
}

pub(super) async fn read_version(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: WantedVersion = taken(arguments)?;
    let desk = Desk::of(&context).await?;
    let (key, kept) = desk.shelf(&context).version(&wanted.version_id).await?;
    let version = kept.record(&key, desk.viewer.agent());
    Ok(plain(json!({ "version": version, "content": kept.content })))
}

pub(super) async fn restore(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: WantedVersion = taken(arguments)?;
    let desk = Desk::of(&context).await?;
    let shelf = desk.shelf(&context);
    let (key, old) = shelf.version(&wanted.version_id).await?;
    context.require_going()?;
    let bytes = old.content.len();
    let (kept, previous) =
        shelf.write(&key, old.content, "resources_restore_version", &wanted.seen).await?;
    Ok(plain(json!({
        "sessionId": desk.viewer.own.session,
        "restoredFromVersionId": wanted.version_id,
        "targetPath": key,
        "bytes": bytes,
        "versionId": version_id(&key, kept.number),
        "previousVersionId": previous.map(|number| version_id(&key, number)),
        "contentHash": kept.content_hash(),
        "outcomeEvaluation": evaluation(&desk).await?,
    })))
}

pub(super) async fn preview_restore(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Preview, ToolError> {
    let wanted: WantedVersion = taken(arguments)?;
    let desk = Desk::of(&context).await?;
    let shelf = desk.shelf(&context);
    let (key, old) = shelf.version(&wanted.version_id).await?;
    let shared = shelf.shared(&key).await?;
    Ok(shown(&key, &old.content, shared.content.as_deref()))
}
