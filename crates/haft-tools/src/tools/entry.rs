//! What is at a path, and making a directory: `read` and `write` without content.

use haft_core::Digest;
use haft_core::session::{Preview, Returned};
use haft_runtime::ToolError;
use haft_sandbox::files::{FileError, Kind, Parents};
use haft_sandbox::virtual_path::VirtualPath;
use serde_json::json;

use super::Action;
use super::answer::{done, refused};
use super::search::word;
use crate::hands::Hand;

pub(super) fn stat(hand: &Hand, path: &str) -> Result<Returned, ToolError> {
    let path = hand.path(path).map_err(refused(Action::Stat))?;
    let stat = hand.files().stat(&path).map_err(refused(Action::Stat))?;
    let output = json!({
        "path": path.to_string(),
        "mountPath": hand.mount_of(&path),
        "kind": word(stat.kind),
        "size": stat.size,
        "mode": format!("{:o}", stat.mode),
        "links": stat.links,
        "modifiedMs": i64::try_from(stat.modified_ns / 1_000_000).unwrap_or_default(),
    });
    Ok(done(Action::Stat, format!("{path}: {}, {} bytes", word(stat.kind), stat.size), output))
}

/// Says which directory would be made, and whether it is there.
pub(super) fn preview_mkdir(hand: &Hand, path: &str) -> Result<Preview, ToolError> {
    let path = hand.path_to_change(path).map_err(refused(Action::Mkdir))?;
    let found = present(hand, &path).map_err(refused(Action::Mkdir))?;
    let shown = path.to_string();
    let parts: [&[u8]; 2] = [shown.as_bytes(), found.map_or("nothing", word).as_bytes()];
    let said = format!("+ directory {shown}\n");
    Ok(Preview {
        fingerprint: Digest::of_parts(&parts),
        diff: found.is_none().then_some(said),
        targets: vec![shown],
        trouble: None,
    })
}

pub(super) fn mkdir(hand: &Hand, path: &str, parents: Parents) -> Result<Returned, ToolError> {
    let path = hand.path_to_change(path).map_err(refused(Action::Mkdir))?;
    hand.files().mkdir(&path, parents).map_err(refused(Action::Mkdir))?;
    let output = json!({ "path": path.to_string(), "mountPath": hand.mount_of(&path) });
    Ok(done(Action::Mkdir, format!("made {path}"), output))
}

fn present(hand: &Hand, path: &VirtualPath) -> Result<Option<Kind>, FileError> {
    match hand.files().stat(path) {
        Ok(stat) => Ok(Some(stat.kind)),
        Err(FileError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
