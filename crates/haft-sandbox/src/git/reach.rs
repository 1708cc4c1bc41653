//! Gets into directories whose permissions would keep the guard out.
//!
//! Commands run with the rights of whoever runs Haft, so a command can take those rights from a
//! directory and leave just enough for git. What Haft's user owns, that user can open again.

use crate::files::{Resolve, open_at};
use crate::mounts::Mounted;
use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

const ALL: u32 = 0o700;
const SEARCH: u32 = 0o100;

/// Tells a file from every other and from itself after a change: no command can set when an inode was
/// last changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp {
    identity: (u64, u64),
    changed: (i64, u64),
}

impl Stamp {
    pub(super) fn of(found: &Stat) -> Self {
        Self {
            identity: (found.st_dev, found.st_ino),
            changed: (found.st_ctime, found.st_ctime_nsec),
        }
    }
}

/// Directories that their owner had closed to everybody before the sandbox opened. Git cannot enter
/// them either, so they stay as they are until something changes them.
#[derive(Debug, Default)]
pub(super) struct Shut {
    stamps: BTreeSet<Stamp>,
    /// Whether the sandbox is about to open, so that all that is closed is its owner's.
    pub(super) learning: bool,
}

impl Shut {
    fn stays(&mut self, found: &Stat) -> bool {
        if found.st_mode & SEARCH != 0 {
            return false;
        }
        let stamp = Stamp::of(found);
        if self.learning {
            self.stamps.insert(stamp);
            return true;
        }
        self.stamps.contains(&stamp)
    }
}

/// Opens a directory for a look at its entries, with the permissions that this takes.
pub(super) fn directory(mounted: &Mounted, path: &Path, shut: &mut Shut) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let open = || open_at(mounted.directory(), path, flags, Mode::empty(), Resolve::NoLinks);
    match open() {
        Err(Errno::ACCESS) => {}
        answer => return answer,
    }
    unlock(mounted, path, shut)?;
    open()
}

/// Opens a directory in which something is about to be renamed.
pub(super) fn directory_to_change(mounted: &Mounted, path: &Path) -> Result<OwnedFd, Errno> {
    let directory = directory(mounted, path, &mut Shut::default())?;
    let mode = rustix::fs::fstat(&directory)?.st_mode;
    if mode & ALL != ALL {
        // Where this is refused, the rename is as well, and tells.
        rustix::fs::fchmod(&directory, opened(mode)).ok();
    }
    Ok(directory)
}

/// Gives the owner back the rights to a directory, and to those on the way that bar it.
fn unlock(mounted: &Mounted, path: &Path, shut: &mut Shut) -> Result<(), Errno> {
    let mut way: Vec<&Path> = path.ancestors().collect();
    way.reverse();
    for at in way {
        if at.as_os_str().is_empty() {
            unlock_one(mounted.directory(), at == path, shut)?;
            continue;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let held = open_at(mounted.directory(), at, flags, Mode::empty(), Resolve::NoLinks)?;
        unlock_one(held.as_fd(), at == path, shut)?;
    }
    Ok(())
}

fn unlock_one(directory: BorrowedFd<'_>, is_last: bool, shut: &mut Shut) -> Result<(), Errno> {
    let found = rustix::fs::fstat(directory)?;
    let needed = if is_last { ALL } else { SEARCH };
    if found.st_mode & needed == needed {
        return Ok(());
    }
    if shut.stays(&found) {
        return Err(Errno::ACCESS);
    }
    // A directory that cannot be opened has no other handle than this, and the kernel changes no mode
    // through the handle itself.
    let held = format!("/proc/self/fd/{}", directory.as_raw_fd());
    rustix::fs::chmod(held, opened(found.st_mode))
}

fn opened(mode: u32) -> Mode {
    Mode::from_raw_mode((mode & 0o7777) | ALL)
}
