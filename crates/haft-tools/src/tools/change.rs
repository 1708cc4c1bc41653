//! `write` and `edit`: shown before they are agreed to, and kept so that they can be taken back.

use haft_core::session::{Preview, Returned};
use haft_core::{ArtifactId, CallId, Digest, SessionId};
use haft_runtime::{ToolArguments, ToolContext, ToolError};
use haft_sandbox::edit::{Edit, MAX_FILE, Places, unified_diff};
use haft_sandbox::files::{ContentHash, Expected, FileError, Files, Parents};
use haft_sandbox::virtual_path::VirtualPath;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

use super::Action;
use super::answer::{apart, done, refused, taken};
use super::command::unhidden;
use super::entry;
use crate::hands::{Hand, Hands};

#[derive(Debug, Deserialize)]
struct WantedWrite {
    path: String,
    content: String,
    #[serde(default)]
    mode: WriteMode,
    parents: Option<bool>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WriteMode {
    #[default]
    Replace,
    Append,
    Directory,
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
    Directory { path: String, parents: Parents },
    File(WantedChange),
}

#[derive(Debug)]
struct WantedChange {
    path: String,
    parents: Parents,
    how: How,
}

/// How a file's content changes.
#[derive(Debug)]
enum How {
    Replace(String),
    Append(String),
    Edit(Edit),
}

/// A change worked out on what the file holds, not yet made.
#[derive(Debug)]
struct Change {
    path: VirtualPath,
    old: Option<Vec<u8>>,
    new: Vec<u8>,
    replacements: usize,
    parents: Parents,
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
    apart(move || match wanted {
        Wanted::Directory { path, .. } => entry::preview_mkdir(&hand, &path),
        Wanted::File(wanted) => Ok(wanted.worked_out(&hand)?.preview()),
    })
    .await
}

async fn make(wanted: Wanted, context: ToolContext) -> Result<Returned, ToolError> {
    let hand = Hands::of(&context).await?;
    let wanted = match wanted {
        Wanted::Directory { path, parents } => {
            return apart(move || entry::mkdir(&hand, &path, parents)).await;
        }
        Wanted::File(wanted) => wanted,
    };
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
        let WantedWrite { path, content, mode, parents } = taken(arguments)?;
        let parents = if parents.unwrap_or(true) { Parents::Create } else { Parents::MustExist };
        let how = match mode {
            WriteMode::Replace => How::Replace(content),
            WriteMode::Append => How::Append(content),
            WriteMode::Directory if content.is_empty() => {
                return Ok(Self::Directory { path, parents });
            }
            WriteMode::Directory => {
                return Err(ToolError::invalid("a directory has no `content`: give an empty one"));
            }
        };
        Ok(Self::File(WantedChange { path, parents, how }))
    }

    fn edit(arguments: ToolArguments) -> Result<Self, ToolError> {
        let WantedEdit { path, old_text: old, new_text: new, replace_all } = taken(arguments)?;
        let places = if replace_all { Places::All } else { Places::One };
        let how = How::Edit(Edit { old, new, places });
        Ok(Self::File(WantedChange { path, parents: Parents::MustExist, how }))
    }
}

impl WantedChange {
    fn worked_out(self, hand: &Hand) -> Result<Change, ToolError> {
        let action = match &self.how {
            How::Replace(_) => Action::WriteText,
            How::Append(_) => Action::AppendText,
            How::Edit(_) => Action::ReplaceText,
        };
        let path = hand.path_to_change(&self.path).map_err(refused(action))?;
        let old = content(hand.files(), &path).map_err(refused(action))?;
        let (new, replacements) = match self.how {
            How::Replace(content) => (content.into_bytes(), 1),
            How::Append(content) => {
                ([old.as_deref().unwrap_or_default(), content.as_bytes()].concat(), 1)
            }
            How::Edit(edit) => {
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
        Ok(Change { path, old, new, replacements, parents: self.parents, action })
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
            diff: Some(unhidden(&unified_diff(&path, old, &self.new))),
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
        files.write(&self.path, &self.new, expected, self.parents).map(drop)
    }

    fn answer(&self, hand: &Hand, way_back: Option<&WayBack>) -> Returned {
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

/// What is needed to take a change back; it stands in the result of the call that made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WayBack {
    pub(super) session_id: SessionId,
    pub(super) call_id: CallId,
    pub(super) path: String,
    /// The artifact that holds what was there; none if there was no file.
    pub(super) backup: Option<ArtifactId>,
    pub(super) previous_hash: Option<String>,
    pub(super) expected_hash: String,
}

impl WayBack {
    /// Keeps what a change replaces, before it does. A runtime that keeps nothing has no way back.
    async fn keep(change: &Change, context: &ToolContext) -> Result<Option<Self>, ToolError> {
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
        Ok(Some(Self {
            session_id: context.session(),
            call_id: context.call(),
            path: change.path.to_string(),
            backup,
            previous_hash: change.old.as_deref().map(|old| ContentHash::of(old).to_string()),
            expected_hash: ContentHash::of(&change.new).to_string(),
        }))
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
