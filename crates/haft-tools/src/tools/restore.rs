//! `file_restore`: takes a `write` or an `edit` back.

use haft_core::session::Returned;
use haft_core::{ArtifactId, SessionId};
use haft_runtime::{ToolArguments, ToolContext, ToolError};
use haft_sandbox::files::{ContentHash, Expected, FileError, Parents, RemoveWhat};
use haft_sandbox::virtual_path::VirtualPath;
use haft_store::{Store, Tenant};
use serde::Deserialize;
use serde_json::json;

use super::Action;
use super::answer::{apart, done, refused, taken};
use super::change::{backup_title, content};
use crate::hands::{Hand, Hands};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wanted {
    session_id: SessionId,
    path: String,
    backup: Option<ArtifactId>,
    previous_hash: Option<String>,
    expected_hash: String,
}

/// What the file shall hold again; `None` when it shall be gone.
type Former = Option<Vec<u8>>;

pub(super) async fn restore(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: Wanted = taken(arguments)?;
    let hand = context.service::<Hands>()?.of_session(wanted.session_id).await?;
    let path = hand.path(&wanted.path).map_err(refused(Action::WriteText))?;
    let former = wanted.former(&context, &path).await?;
    context.require_going()?;
    apart(move || {
        let restored = wanted.put_back(&hand, &path, former.as_deref());
        let operation = restored.map_err(refused(Action::WriteText))?;
        let output = json!({
            "path": path.to_string(),
            "mountPath": hand.mount_of(&path),
            "operation": operation,
            "contentHash": wanted.previous_hash,
        });
        Ok(done(Action::WriteText, format!("{operation} {path}"), output))
    })
    .await
}

impl Wanted {
    /// Reads what was kept of the file, of a session of the same tenant and of this path only.
    async fn former(&self, context: &ToolContext, path: &VirtualPath) -> Result<Former, ToolError> {
        let store = context.store().ok_or_else(|| ToolError::internal("no store keeps backups"))?;
        let tenant = tenant(store, context.session()).await?;
        if tenant != self::tenant(store, self.session_id).await? {
            return Err(unknown());
        }
        let Some(id) = self.backup else { return Ok(None) };
        let artifact = store.artifact(&tenant, id).await?.ok_or_else(unknown)?;
        let titled = artifact.reference.title.as_deref() == Some(&backup_title(path));
        if artifact.session != Some(self.session_id) || !titled {
            return Err(unknown());
        }
        if Some(ContentHash::of(&artifact.body).to_string()) != self.previous_hash {
            return Err(ToolError::new(
                "the kept copy is not what the file held: secrets were masked in it, or another \
                 hash was given; a person must restore the file",
            ));
        }
        Ok(Some(artifact.body))
    }

    fn put_back(
        &self,
        hand: &Hand,
        path: &VirtualPath,
        former: Option<&[u8]>,
    ) -> Result<&'static str, FileError> {
        let now = content(hand.files(), path)?;
        if now.as_deref() == former {
            return Ok("already restored");
        }
        let found = now.as_deref().map(ContentHash::of);
        let expected = ContentHash::of(former.unwrap_or_default());
        let Some(current) = found.filter(|found| found.to_string() == self.expected_hash) else {
            return Err(FileError::Changed { path: path.clone(), expected, found });
        };
        match former {
            Some(former) => {
                let expected = Expected::Content(current);
                hand.files().write(path, former, expected, Parents::Create)?;
                Ok("restored")
            }
            None => {
                hand.files().remove(path, RemoveWhat::File)?;
                Ok("removed")
            }
        }
    }
}

async fn tenant(store: &Store, session: SessionId) -> Result<Tenant, ToolError> {
    Ok(store.load(session).await?.ok_or_else(unknown)?.tenant)
}

fn unknown() -> ToolError {
    ToolError::invalid("nothing is kept of that file for that session: give the `undo` of a result")
}
