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

pub(crate) use beneath::{Resolve, open_at, open_beneath};
pub(crate) use error::Context;
pub(crate) use write::open_directory;

use crate::mounts::{Access, Located, Mounts, is_protected};
use crate::virtual_path::VirtualPath;
use rustix::fs::{FileType, OFlags};
use sha2::{Digest as _, Sha256};
use std::fmt;

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
        let file = open_beneath(&located, flags, Resolve::ThroughLinks).at(path)?;
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
        let directory = open_beneath(&located, flags, Resolve::ThroughLinks).at(path)?;
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
        open_beneath(&located, flags, Resolve::ThroughLinks).at(path).map(drop)
    }

    pub(crate) fn locate(&self, path: &VirtualPath) -> Result<Located<'_>, FileError> {
        self.mounts.locate(path).ok_or_else(|| FileError::Outside { path: path.clone() })
    }

    fn locate_for_change(&self, path: &VirtualPath) -> Result<Located<'_>, FileError> {
        let located = self.locate(path)?;
        if located.mounted.root.access == Access::ReadOnly {
            return Err(FileError::ReadOnly { path: path.clone() });
        }
        if is_protected(&located.relative) {
            return Err(FileError::Protected { path: path.clone() });
        }
        Ok(located)
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
