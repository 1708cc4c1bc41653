//! File operations, each resolved beneath its root by the kernel.
//!
//! `openat2` does the resolving, so a symlink, a `..` or a directory renamed under way cannot lead out.
//! Errors name the virtual path only.

mod beneath;
mod change;
mod error;
mod read;
mod write;

pub use change::RemoveWhat;
pub use error::{Entry, FileError};
pub use read::{Reading, SCAN_LIMIT, Whole, Window};
pub use write::{Expected, Parents, Written};

pub(crate) use beneath::{Resolve, open_at};
pub(crate) use error::Context;
pub(crate) use write::open_directory;

use crate::git::would_be_repository;
use crate::mounts::{Access, Located, Mounts, is_protected};
use crate::virtual_path::VirtualPath;
use rustix::fs::{FileType, Mode, OFlags};
use sha2::{Digest as _, Sha256};
use std::ffi::OsStr;
use std::fmt;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// File operations over the mounted roots.
#[derive(Clone, Debug)]
pub struct Files {
    mounts: Mounts,
}

/// The SHA-256 of a file's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentHash([u8; 32]);

/// What an entry of a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, wherever it leads.
    Symlink,
    /// A device, socket or pipe: never opened.
    Other,
}

/// What is known of a path without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: Kind,
    /// Its size in bytes.
    pub size: u64,
    /// Its permission bits.
    pub mode: u32,
    /// When its content last changed, in nanoseconds since 1970.
    pub modified_ns: i128,
    /// How many names it has.
    pub links: u64,
}

/// A directory's entries, sorted by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The first of them.
    pub entries: Vec<Listed>,
    /// How many there are in all.
    pub total: usize,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Where it is.
    pub path: VirtualPath,
    /// What it is.
    pub kind: Kind,
}

impl Files {
    /// Operations over these roots.
    pub fn new(mounts: Mounts) -> Self {
        Self { mounts }
    }

    /// The roots.
    pub fn mounts(&self) -> &Mounts {
        &self.mounts
    }

    /// What stands at a path; a symlink at its end is reported as one, not followed.
    ///
    /// # Errors
    /// When nothing is there, or the path leads out.
    pub fn stat(&self, path: &VirtualPath) -> Result<Stat, FileError> {
        let located = self.locate(path)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let file = self.open_beneath(&located, flags, path)?;
        let found = rustix::fs::fstat(&file).at(path)?;
        let kind = Kind::of(FileType::from_raw_mode(found.st_mode));
        if path.means_a_directory() && kind != Kind::Directory {
            return Err(FileError::Kind { path: path.clone(), expected: Entry::Directory });
        }
        Ok(Stat {
            kind,
            size: u64::try_from(found.st_size).unwrap_or(0),
            mode: found.st_mode & 0o7777,
            modified_ns: i128::from(found.st_mtime) * 1_000_000_000
                + i128::from(found.st_mtime_nsec),
            links: found.st_nlink,
        })
    }

    /// The first `limit` entries of a directory, by name.
    ///
    /// # Errors
    /// When it is no directory, or the path leads out.
    pub fn list(&self, path: &VirtualPath, limit: usize) -> Result<Listing, FileError> {
        let located = self.locate(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let directory = self.open_beneath(&located, flags, path)?;
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::new(directory).at(path)? {
            let entry = entry.at(path)?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                let name = std::os::unix::ffi::OsStrExt::from_bytes(name);
                entries.push(Listed { path: path.join(name), kind: Kind::of(entry.file_type()) });
            }
        }
        entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let total = entries.len();
        entries.truncate(limit);
        Ok(Listing { entries, total })
    }

    /// Where a directory lies, for a command to be started in.
    ///
    /// # Errors
    /// When it is no directory, or the path leads out.
    pub fn directory(&self, path: &VirtualPath) -> Result<(), FileError> {
        let located = self.locate(path)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        self.open_beneath(&located, flags, path).map(drop)
    }

    pub(crate) fn locate(&self, path: &VirtualPath) -> Result<Located<'_>, FileError> {
        self.mounts.locate(path).ok_or_else(|| FileError::Outside { path: path.clone() })
    }

    /// Opens what a path leads to, through links that stay beneath the root; never what is private.
    pub(crate) fn open_beneath(
        &self,
        located: &Located<'_>,
        flags: OFlags,
        path: &VirtualPath,
    ) -> Result<OwnedFd, FileError> {
        let (directory, relative) = (located.mounted.directory(), &located.relative);
        let file = open_at(directory, relative, flags, Mode::empty(), Resolve::ThroughLinks);
        let file = file.at(path)?;
        if self.mounts.private().holds(file.as_fd(), located.mounted.identity).at(path)? {
            return Err(FileError::Private { path: path.clone() });
        }
        Ok(file)
    }

    fn locate_for_change(&self, path: &VirtualPath) -> Result<Located<'_>, FileError> {
        let located = self.locate(path)?;
        if located.mounted.root.access == Access::ReadOnly {
            return Err(FileError::ReadOnly { path: path.clone() });
        }
        if is_protected(&located.relative)
            || would_be_repository(located.mounted, &located.relative)
        {
            return Err(FileError::Protected { path: path.clone() });
        }
        self.require_not_private(&located, path)?;
        Ok(located)
    }

    /// Looks at the innermost directory of the way that is there, and at the name that follows: the
    /// rest would be made in it. Changes go through no link, so that is where they would happen.
    fn require_not_private(
        &self,
        located: &Located<'_>,
        path: &VirtualPath,
    ) -> Result<(), FileError> {
        let private = self.mounts.private();
        let (root, identity) = (located.mounted.directory(), located.mounted.identity);
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let mut next = located.relative.as_path();
        while let Some((parent, name)) = next.parent().zip(next.file_name()) {
            match open_at(root, parent, flags, Mode::empty(), Resolve::NoLinks) {
                Ok(parent) => {
                    let is_private = private.holds(parent.as_fd(), identity).at(path)?
                        || private.reserves(parent.as_fd(), name).at(path)?;
                    return match is_private {
                        true => Err(FileError::Private { path: path.clone() }),
                        false => Ok(()),
                    };
                }
                Err(_) => next = parent,
            }
        }
        Ok(())
    }

    /// Refuses to move or remove a directory that something private lies below.
    fn require_movable(
        &self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        path: &VirtualPath,
    ) -> Result<(), FileError> {
        match self.mounts.private().lies_below(directory, name).at(path)? {
            true => Err(FileError::Private { path: path.clone() }),
            false => Ok(()),
        }
    }
}

impl Kind {
    pub(crate) fn of(raw: FileType) -> Self {
        match raw {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            _ => Self::Other,
        }
    }
}

impl ContentHash {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    pub(crate) fn finish(hasher: Sha256) -> Self {
        Self(hasher.finalize().into())
    }

    /// Reads what `Display` writes.
    pub fn parse(hex: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if hex.len() != 64 || !hex.is_ascii() {
            return None;
        }
        for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(hex.get(at..at + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentHash({self})")
    }
}
