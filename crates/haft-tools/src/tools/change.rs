//! `write` and `edit`: shown before they are agreed to, and kept so that they can be taken back.

use haft_core::session::{Preview, Returned};
use haft_core::{Digest, SessionId};
use haft_runtime::{ToolArguments, ToolContext, ToolError};
use haft_sandbox::edit::{Edit, MAX_FILE, Places, unified_diff};
use haft_sandbox::files::{ContentHash, Expected, FileError, Files, Parents};
use haft_sandbox::virtual_path::VirtualPath;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

use super::Action;
use super::answer::{apart, done, refused, taken};
use crate::hands::{Hand, Hands};

#[derive(Debug, Deserialize)]
struct WantedWrite {
    path: String,
    content: String,
    #[serde(default)]
    mode: WriteMode,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WriteMode {
    #[default]
    Replace,
    Append,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WantedEdit {
    path: String,
    old_text: String,
    new_text: String,
    #[serde(default)]
    replace_all: bool,
}

/// What is wanted of a file.
#[derive(Debug)]
enum Wanted {
    Write { path: String, content: String, mode: WriteMode },
    Edit { path: String, edit: Edit },
}

/// A change worked out on what the file holds, not yet made.
#[derive(Debug)]
struct Change {
    path: VirtualPath,
    old: Option<Vec<u8>>,
    new: Vec<u8>,
    replacements: usize,
    action: Action,
}

pub(super) async fn write(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    make(Wanted::write(arguments)?, context).await
}

pub(super) async fn edit(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    make(Wanted::edit(arguments)?, context).await
}

pub(super) async fn preview_write(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Preview, ToolError> {
    show(Wanted::write(arguments)?, context).await
}

pub(super) async fn preview_edit(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Preview, ToolError> {
    show(Wanted::edit(arguments)?, context).await
}

async fn show(wanted: Wanted, context: ToolContext) -> Result<Preview, ToolError> {
    let hand = Hands::of(&context).await?;
    apart(move || Ok(wanted.worked_out(&hand)?.preview())).await
}

async fn make(wanted: Wanted, context: ToolContext) -> Result<Returned, ToolError> {
    let hand = Hands::of(&context).await?;
    let working = Arc::clone(&hand);
    let change = apart(move || wanted.worked_out(&working)).await?;
    let way_back = WayBack::keep(&change, &context).await?;
    context.require_going()?;
    apart(move || {
        change.put(hand.files()).map_err(refused(change.action))?;
        Ok(change.answer(&hand, way_back.as_ref()))
    })
    .await
}

impl Wanted {
    fn write(arguments: ToolArguments) -> Result<Self, ToolError> {
        let WantedWrite { path, content, mode } = taken(arguments)?;
        Ok(Self::Write { path, content, mode })
    }

    fn edit(arguments: ToolArguments) -> Result<Self, ToolError> {
        let WantedEdit { path, old_text: old, new_text: new, replace_all } = taken(arguments)?;
        let places = if replace_all { Places::All } else { Places::One };
        Ok(Self::Edit { path, edit: Edit { old, new, places } })
    }

    fn action(&self) -> Action {
        match self {
            Self::Write { mode: WriteMode::Replace, .. } => Action::WriteText,
            Self::Write { mode: WriteMode::Append, .. } => Action::AppendText,
            Self::Edit { .. } => Action::ReplaceText,
        }
    }

    fn worked_out(self, hand: &Hand) -> Result<Change, ToolError> {
        let action = self.action();
        let (Self::Write { path, .. } | Self::Edit { path, .. }) = &self;
        let path = hand.path(path).map_err(refused(action))?;
        let old = content(hand.files(), &path).map_err(refused(action))?;
        let (new, replacements) = match self {
            Self::Write { content, mode: WriteMode::Replace, .. } => (content.into_bytes(), 1),
            Self::Write { content, mode: WriteMode::Append, .. } => {
                ([old.as_deref().unwrap_or_default(), content.as_bytes()].concat(), 1)
            }
            Self::Edit { edit, .. } => {
                let missing = || FileError::NotFound { path: path.clone() };
                let old = old.as_ref().ok_or_else(missing).map_err(refused(action))?;
                let edited = edit.apply(old).map_err(refused(action))?;
                (edited.content, edited.replacements)
            }
        };
        if new.len() as u64 > MAX_FILE {
            let (size, limit) = (new.len() as u64, MAX_FILE);
            return Err(refused(action)(FileError::TooLarge { path, size, limit }));
        }
        Ok(Change { path, old, new, replacements, action })
    }
}

impl Change {
    fn preview(&self) -> Preview {
        let path = self.path.to_string();
        let before = self.old.as_deref().map(Digest::of_bytes).unwrap_or(Digest::ZERO);
        let after = Digest::of_bytes(&self.new);
        let parts: [&[u8]; 3] = [path.as_bytes(), before.as_bytes(), after.as_bytes()];
        let old = self.old.as_deref().unwrap_or_default();
        Preview {
            fingerprint: Digest::of_parts(&parts),
            diff: Some(unified_diff(&path, old, &self.new)),
            targets: vec![path],
            trouble: None,
        }
    }

    /// Writes it, if the file still holds what it was worked out on.
    fn put(&self, files: &Files) -> Result<(), FileError> {
        let expected = match &self.old {
            Some(old) => Expected::Content(ContentHash::of(old)),
            None => Expected::Absent,
        };
        files.write(&self.path, &self.new, expected, Parents::Create).map(drop)
    }

    fn answer(&self, hand: &Hand, way_back: Option<&Value>) -> Returned {
        let operation = match (self.action, &self.old) {
            (_, None) => "created",
            (Action::ReplaceText, _) => "edited",
            (Action::AppendText, _) => "appended",
            (_, Some(_)) => "overwritten",
        };
        let path = self.path.to_string();
        let output = json!({
            "path": path,
            "mountPath": hand.mount_of(&self.path),
            "operation": operation,
            "charCount": String::from_utf8_lossy(&self.new).chars().count(),
            "occurrences": self.replacements,
            "replacements": self.replacements,
            "contentHash": ContentHash::of(&self.new).to_string(),
            "undo": way_back,
        });
        done(self.action, format!("{operation} {path}"), output)
    }
}

/// What is needed to take a change back.
struct WayBack;

impl WayBack {
    /// Keeps what a change replaces, before it does. A runtime that keeps nothing has no way back.
    async fn keep(change: &Change, context: &ToolContext) -> Result<Option<Value>, ToolError> {
        if context.store().is_none() {
            return Ok(None);
        }
        let backup = match &change.old {
            Some(old) => {
                let title = backup_title(&change.path);
                let kept = context.keep(&title, "application/octet-stream", old.clone()).await?;
                Some(kept.id)
            }
            None => None,
        };
        let session: SessionId = context.session();
        Ok(Some(json!({
            "sessionId": session,
            "path": change.path.to_string(),
            "backup": backup,
            "previousHash": change.old.as_deref().map(|old| ContentHash::of(old).to_string()),
            "expectedHash": ContentHash::of(&change.new).to_string(),
        })))
    }
}

/// What the artifact that holds a file's former content is called.
pub(super) fn backup_title(path: &VirtualPath) -> String {
    format!("before a change: {path}")
}

/// What a file holds; `None` when there is none.
pub(super) fn content(files: &Files, path: &VirtualPath) -> Result<Option<Vec<u8>>, FileError> {
    match files.read_all(path, MAX_FILE) {
        Ok(content) => Ok(Some(content)),
        Err(FileError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
