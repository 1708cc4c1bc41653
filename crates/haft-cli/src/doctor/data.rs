//! The data directory: whether it is there, who may use it, and the files in it that must be ours.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::Access;

use super::finding::Finding;
use crate::rules;

const DIRECTORY: &str = "data.directory";
const PERMISSIONS: &str = "data.permissions";
const SEALING_KEY: &str = "data.sealing_key";

/// Returns whether there is a directory to look into, and what is to be said of it.
pub(super) fn examine(path: &Path) -> (bool, Vec<Finding>) {
    let shown = path.display();
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            let there = Finding::ok(DIRECTORY, format!("`{shown}` is there"));
            (true, vec![there, permissions(path, &found)])
        }
        Ok(_) => {
            let message = format!("`{shown}` is a file, and must be a directory");
            let fix = "name another place with --data or HAFT_DATA, or move the file away";
            (false, vec![Finding::problem(DIRECTORY, message, fix)])
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => (false, vec![absent(path)]),
        Err(error) => {
            let message = format!("`{shown}` cannot be looked at: {error}");
            let fix = "give this user access to it, or name another directory with --data";
            (false, vec![Finding::problem(DIRECTORY, message, fix)])
        }
    }
}

fn absent(path: &Path) -> Finding {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let above = absolute.ancestors().skip(1).find(|above| above.exists());
    let can_be_made =
        above.is_some_and(|above| rustix::fs::access(above, Access::WRITE_OK).is_ok());
    let shown = path.display();
    match can_be_made {
        true => Finding::warning(
            DIRECTORY,
            format!("there is no `{shown}` yet"),
            "`haft serve` makes it; if there should be one, name it with --data or HAFT_DATA",
        ),
        false => Finding::problem(
            DIRECTORY,
            format!("there is no `{shown}`, and this user may not make it"),
            "make it for this user, or name another directory with --data or HAFT_DATA",
        ),
    }
}

fn permissions(path: &Path, found: &Metadata) -> Finding {
    let (shown, mode) = (path.display(), found.permissions().mode() & 0o7777);
    let us = rustix::process::geteuid().as_raw();
    if rustix::fs::access(path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).is_err() {
        let message = format!("this user (id {us}) may not read and write `{shown}` ({mode:04o})");
        let fix = format!("`chown {us} {shown}` and `chmod 700 {shown}`");
        return Finding::problem(PERMISSIONS, message, fix);
    }
    if mode & 0o022 != 0 {
        let message = format!("other users may write to `{shown}` (mode {mode:04o})");
        return Finding::problem(PERMISSIONS, message, format!("`chmod 700 {shown}`"));
    }
    if found.uid() != us {
        let message = format!(
            "`{shown}` belongs to user {}, and this is user {us}: the files of the two would mix",
            found.uid()
        );
        let fix = "run `haft` as the user that owns the directory";
        return Finding::warning(PERMISSIONS, message, fix);
    }
    if mode & 0o055 != 0 {
        let message = format!("other users of this machine may read `{shown}` (mode {mode:04o})");
        return Finding::warning(PERMISSIONS, message, format!("`chmod 700 {shown}`"));
    }
    Finding::ok(PERMISSIONS, format!("only this user may use it (mode {mode:04o})"))
}

/// The key under which secrets are sealed: without it they are lost, and with it they are open.
pub(super) fn sealing_key(data: &Path) -> Finding {
    let path = data.join("sealing-key");
    let shown = path.display();
    let found = match fs::metadata(&path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return no_sealing_key(data),
        Err(error) => {
            let message = format!("`{shown}` cannot be looked at: {error}");
            return Finding::problem(SEALING_KEY, message, "give the file to this user");
        }
    };
    let mode = found.permissions().mode() & 0o777;
    if !found.is_file() || found.len() != 32 {
        let message = format!("`{shown}` must be a file of 32 bytes, and has {}", found.len());
        return Finding::problem(
            SEALING_KEY,
            message,
            "put back the key that belongs to the store",
        );
    }
    if fs::File::open(&path).is_err() {
        let message = format!("this user may not read `{shown}` (mode {mode:03o})");
        return Finding::problem(SEALING_KEY, message, "give the file to this user");
    }
    match mode & 0o077 {
        0 => Finding::ok(SEALING_KEY, "the sealing key is there, for this user alone"),
        _ => Finding::problem(
            SEALING_KEY,
            format!("other users have access to `{shown}` (mode {mode:03o})"),
            format!("`chmod 600 {shown}`; if someone may have read it, renew the secrets it seals"),
        ),
    }
}

fn no_sealing_key(data: &Path) -> Finding {
    match data.join("haft.db").exists() {
        true => Finding::warning(
            SEALING_KEY,
            "there is a store and no sealing key: `haft serve` would make a new one, which does \
             not open what was sealed before",
            "put back `sealing-key` from a backup, unless the vaults never held a secret",
        ),
        false => Finding::ok(SEALING_KEY, "there is none yet; `haft serve` makes it"),
    }
}

/// The rules of the directory, where there are some.
pub(super) fn policy(data: &Path) -> Option<Finding> {
    let path = rules::usual(data);
    if !path.exists() {
        return None;
    }
    Some(match rules::of(data) {
        Ok(_) => Finding::ok("data.policy", "`policy.toml` is read, and its examples hold"),
        Err(trouble) => Finding::problem(
            "data.policy",
            trouble.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" "),
            format!("correct it; `haft policy check {}` says whether it holds", path.display()),
        ),
    })
}
