//! The one door to the host's files: `openat2` beneath a root held open.

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

/// Whether links on the way are followed. They never lead out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolve {
    ThroughLinks,
    NoLinks,
}

/// The kernel gives `EAGAIN` when a rename raced with the walk. A few tries are plenty; endless ones
/// would let a busy renamer hold us.
const TRIES: usize = 8;

pub(crate) fn open_at(
    directory: BorrowedFd<'_>,
    relative: &Path,
    flags: OFlags,
    mode: Mode,
    resolve: Resolve,
) -> Result<OwnedFd, Errno> {
    // O_NONBLOCK so that a pipe or a device put there cannot hold us; O_PATH takes neither.
    let asked = if flags.contains(OFlags::PATH) {
        flags | OFlags::CLOEXEC
    } else {
        flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY
    };
    let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
    let mut left = TRIES;
    loop {
        match rustix::fs::openat2(directory, relative, asked, mode, resolve.flags()) {
            Err(Errno::AGAIN | Errno::INTR) if left > 0 => left -= 1,
            answer => return answer,
        }
    }
}

impl Resolve {
    fn flags(self) -> ResolveFlags {
        let always = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match self {
            Self::ThroughLinks => always,
            Self::NoLinks => always | ResolveFlags::NO_SYMLINKS,
        }
    }
}
