//! `file_restore`: takes a `write` or an `edit` back, and is nothing else.
//!
//! It is given only which call to take back. What that call did is read from the log, so nobody
//! can have another file put back, or another content; and it runs only as the one call that the
//! runtime recorded as that call's undo.

use haft_core::session::{Event, Returned};
use haft_core::{CallId, CallResult, SessionId};
use haft_runtime::{ToolArguments, ToolContext, ToolError};
use haft_sandbox::files::{ContentHash, Expected, FileError, Parents, RemoveWhat};
use haft_sandbox::virtual_path::VirtualPath;
use haft_store::{Store, Tenant};
use serde::Deserialize;
use serde_json::json;

use super::Action;
use super::answer::{apart, done, refused, taken};
use super::change::{WayBack, backup_title, content};
use crate::hands::{Hand, Hands};

/// How many entries of a log are read at once.
const PAGE: u32 = 256;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wanted {
    session_id: SessionId,
    call_id: CallId,
}

/// What the file shall hold again; `None` when it shall be gone.
type Former = Option<Vec<u8>>;

pub(super) async fn restore(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: Wanted = taken(arguments)?;
    let way_back = wanted.way_back(&context).await?;
    let hand = context.service::<Hands>()?.of_session(wanted.session_id).await?;
    let path = hand.path(&way_back.path).map_err(refused(Action::WriteText))?;
    let former = way_back.former(&context, &path).await?;
    context.require_going()?;
    apart(move || {
        let restored = way_back.put_back(&hand, &path, former.as_deref());
        let operation = restored.map_err(refused(Action::WriteText))?;
        let output = json!({
            "path": path.to_string(),
            "mountPath": hand.mount_of(&path),
            "operation": operation,
            "contentHash": way_back.previous_hash,
        });
        Ok(done(Action::WriteText, format!("{operation} {path}"), output))
    })
    .await
}

impl Wanted {
    /// Reads what the call said about taking it back.
    async fn way_back(&self, context: &ToolContext) -> Result<WayBack, ToolError> {
        if !context.takes_back(self.call_id).await? {
            return Err(not_an_undo());
        }
        let store = context.store().ok_or_else(not_an_undo)?;
        let loaded = store.load(self.session_id).await?.ok_or_else(not_an_undo)?;
        let mut end = loaded.head.seq;
        while end > 0 {
            let after = end.saturating_sub(PAGE.into());
            let limit = u32::try_from(end - after).unwrap_or(PAGE);
            let page = store.entries(self.session_id, after, limit).await?;
            for entry in page.iter().rev() {
                let event =
                    entry.event().map_err(|error| ToolError::internal(error.to_string()))?;
                if let Some(way_back) = self.told_by(event) {
                    return way_back.filter(|it| self.is_of(it)).ok_or_else(not_an_undo);
                }
            }
            end = after;
        }
        Err(not_an_undo())
    }

    /// What an event says about taking the call back, if it is the call's end.
    fn told_by(&self, event: Event) -> Option<Option<WayBack>> {
        let Event::CallFinished { outcome } = event else { return None };
        if outcome.call != self.call_id {
            return None;
        }
        let CallResult::Ok(output) = outcome.result else { return Some(None) };
        let told = output.value.as_ref().and_then(|value| value.pointer("/output/undo"));
        Some(told.and_then(|told| WayBack::deserialize(told).ok()))
    }

    fn is_of(&self, way_back: &WayBack) -> bool {
        way_back.session_id == self.session_id && way_back.call_id == self.call_id
    }
}

impl WayBack {
    /// Reads what was kept of the file, of its own session and path only.
    async fn former(&self, context: &ToolContext, path: &VirtualPath) -> Result<Former, ToolError> {
        let store = context.store().ok_or_else(not_an_undo)?;
        let tenant = tenant(store, self.session_id).await?;
        let Some(id) = self.backup else { return Ok(None) };
        let artifact = store.artifact(&tenant, id).await?.ok_or_else(not_an_undo)?;
        let titled = artifact.reference.title.as_deref() == Some(&backup_title(path));
        if artifact.session != Some(self.session_id) || !titled {
            return Err(not_an_undo());
        }
        if Some(ContentHash::of(&artifact.body).to_string()) != self.previous_hash {
            return Err(ToolError::new(
                "the kept copy is not what the file held, because secrets were masked in it; a \
                 person must restore the file",
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
    Ok(store.load(session).await?.ok_or_else(not_an_undo)?.tenant)
}

fn not_an_undo() -> ToolError {
    ToolError::invalid(
        "`file_restore` only takes back a `write` or `edit` of its own tenant, and only when the \
         runtime undoes that call; ask a person to undo it",
    )
}
