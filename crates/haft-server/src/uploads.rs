//! Files that were attached to a session, in a directory that its tools can read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use haft_core::{ArtifactId, SessionId};
use haft_store::Store;
use serde_json::Value;

use crate::error::Error;
use crate::objects::Members;
use crate::session::kept_beside;

/// Where a session's tools find what was attached.
pub const MOUNTED_AT: &str = "/mnt/session/uploads";

/// Checks where a file is to be found: a name within the mounted directory. Elsewhere a tool may
/// have put a link that leads out of the workspace.
pub(crate) fn checked_path(path: &str) -> Result<(), Error> {
    match file_name(path) {
        Some(_) => Ok(()),
        None => Err(Error::invalid(format!(
            "mount_path: expected `{MOUNTED_AT}/` and a file name of at most 200 bytes; elsewhere \
             is not supported by this server"
        ))),
    }
}

fn file_name(path: &str) -> Option<&str> {
    let name = path.strip_prefix(MOUNTED_AT)?.strip_prefix('/')?;
    let is_plain = !name.contains(['/', '\\']) && !name.chars().any(char::is_control);
    let is_name = (1..=200).contains(&name.len()) && ![".", ".."].contains(&name);
    (is_plain && is_name).then_some(name)
}

/// Makes a directory hold exactly what is attached to a session.
///
/// # Errors
///
/// When the store or the directory has trouble.
pub async fn place(store: &Store, session: SessionId, directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let beside = kept_beside(store, session).await.map_err(io::Error::other)?;
    let Some((tenant, beside)) = beside else { return Ok(()) };
    let mut kept = BTreeSet::new();
    for (name, artifact) in attached(&beside) {
        let path = directory.join(&name);
        if !path.exists() {
            let found = store.artifact(&tenant, artifact).await.map_err(io::Error::other)?;
            let found = found.ok_or_else(|| io::Error::other(format!("{artifact} is gone")))?;
            write(&path, &found.body)?;
        }
        kept.insert(path);
    }
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if !kept.contains(&path) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Writes a file under its name only once it is whole.
pub(crate) fn write(path: &Path, body: &[u8]) -> io::Result<()> {
    let mut unfinished = PathBuf::from(path);
    unfinished.as_mut_os_string().push(".part");
    fs::write(&unfinished, body)?;
    fs::rename(unfinished, path)
}

fn attached(beside: &Members) -> Vec<(String, ArtifactId)> {
    let resources = beside.get("resources").and_then(Value::as_array);
    let file = |resource: &Value| {
        let name = file_name(resource["mount_path"].as_str()?)?;
        let artifact = resource["artifact"].as_str()?.parse().ok()?;
        Some((name.to_owned(), artifact))
    };
    resources.into_iter().flatten().filter_map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_never_placed_outside_of_its_directory() {
        assert_eq!(file_name("/mnt/session/uploads/a.txt"), Some("a.txt"));
        let outside = [
            "/mnt/session/uploads/../x",
            "/mnt/session/uploads/",
            "/etc/passwd",
            "a",
            "/mnt/session/uploads/a/b",
            "/mnt/session/uploads/..",
            "/mnt/session/uploadsx",
        ];
        for path in outside {
            assert_eq!(file_name(path), None, "{path}");
        }
    }
}
