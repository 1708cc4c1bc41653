//! What the mounts keep read-only in a root's own repository: a change there is its owner's.

use crate::files::{Resolve, open_at};
use crate::mounts::{Mounted, Mounts};
use crate::private::{Identity, identity_of, path_of};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// In a writable root these are kept as they are: the host's git would run what is written there.
pub(crate) const KEPT: &[&str] =
    &[".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir"];

/// A file or directory that the sandbox shows read-only.
#[derive(Debug)]
pub(super) struct Kept {
    root: usize,
    path: PathBuf,
    identity: Identity,
    /// Held open, so that its number is not given to another.
    _held: OwnedFd,
}

/// What will be read-only in a writable root, by what is there before its sandbox opens.
pub(super) fn kept(at: usize, mounted: &Mounted, mounts: &Mounts) -> Vec<Kept> {
    let hold = |path: &str| {
        let held = open(mounted, Path::new(path))?;
        let identity = identity_of(&rustix::fs::fstat(&held).ok()?);
        Some(Kept { root: at, path: PathBuf::from(path), identity, _held: held })
    };
    let Some(found) = stat(mounted, Path::new(".git")) else { return Vec::new() };
    match FileType::from_raw_mode(found.st_mode) {
        _ if is_shown_elsewhere(mounted, mounts) => Vec::new(),
        FileType::Directory => KEPT.iter().filter_map(|path| hold(path)).collect(),
        FileType::RegularFile => hold(".git").into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Whether another root lies in the repository of this one: commands may write there.
fn is_shown_elsewhere(mounted: &Mounted, mounts: &Mounts) -> bool {
    let Ok(own) = path_of(mounted.directory()) else { return true };
    let own = own.join(".git");
    mounts.mounted().any(|other| path_of(other.directory()).map_or(true, |it| it.starts_with(&own)))
}

impl Kept {
    /// Whether a path is still read-only in the sandbox, so that what is there is its owner's.
    ///
    /// A file that the host replaces or removes takes the mount over it along, and commands can write
    /// to its successor: only the very file or directory of the beginning is known to be kept. One
    /// with a second name may have been written by that name.
    pub(super) fn holds(&self, at: usize, mounted: &Mounted, path: &Path) -> bool {
        if self.root != at || !path.starts_with(&self.path) {
            return false;
        }
        let is_same = stat(mounted, &self.path).is_some_and(|it| identity_of(&it) == self.identity);
        let has_one_name = |found: Stat| {
            FileType::from_raw_mode(found.st_mode) != FileType::RegularFile || found.st_nlink == 1
        };
        is_same && stat(mounted, path).is_some_and(has_one_name)
    }
}

fn stat(mounted: &Mounted, path: &Path) -> Option<Stat> {
    rustix::fs::fstat(open(mounted, path)?).ok()
}

fn open(mounted: &Mounted, path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    open_at(mounted.directory(), path, flags, Mode::empty(), Resolve::NoLinks).ok()
}
