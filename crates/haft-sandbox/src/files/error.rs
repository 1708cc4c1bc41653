//! Why a file operation was refused or failed.

use super::ContentHash;
use crate::virtual_path::VirtualPath;
use rustix::io::Errno;
use std::io;

/// Why a file operation was refused or failed. Names the virtual path only.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// In no mounted root.
    #[error("{path} is in no mounted root")]
    Outside {
        /// The path asked for.
        path: VirtualPath,
    },
    /// A link on the way leads out of the root, or must not be followed for a change.
    #[error(
        "{path} is or goes through a link that leads out of its root or may not be written through"
    )]
    Link {
        /// The path asked for.
        path: VirtualPath,
    },
    /// Nothing is there.
    #[error("{path} does not exist")]
    NotFound {
        /// The path asked for.
        path: VirtualPath,
    },
    /// Something else is there.
    #[error("{path} is not {}", expected.words())]
    Kind {
        /// The path asked for.
        path: VirtualPath,
        /// What it should have been.
        expected: Entry,
    },
    /// The root is mounted read-only.
    #[error("{path} is mounted read-only")]
    ReadOnly {
        /// The path asked for.
        path: VirtualPath,
    },
    /// What lies there would be run by tools of the host.
    #[error("{path} is protected: tools outside the sandbox run what is written there")]
    Protected {
        /// The path asked for.
        path: VirtualPath,
    },
    /// It is part of the state of the program that runs the tools.
    #[error(
        "{path} is private: it belongs to the program that runs the tools, and no tool can reach its data or configuration"
    )]
    Private {
        /// The path asked for.
        path: VirtualPath,
    },
    /// The file has other names, which may lie outside.
    #[error(
        "{path} has {links} names (hard links) and changing it would change the others: copy it first"
    )]
    HardLinked {
        /// The path asked for.
        path: VirtualPath,
        /// How many names it has.
        links: u64,
    },
    /// More than may be read at once.
    #[error("{path} has {size} bytes, at most {limit} are taken")]
    TooLarge {
        /// The path asked for.
        path: VirtualPath,
        /// Its size.
        size: u64,
        /// The most that is taken.
        limit: u64,
    },
    /// It was to be created.
    #[error("{path} exists already")]
    Exists {
        /// The path asked for.
        path: VirtualPath,
    },
    /// The content is not what the change was meant for.
    #[error("{path} has changed: expected content {expected}, found {}", found.map_or_else(|| "none".to_owned(), |hash| hash.to_string()))]
    Changed {
        /// The path asked for.
        path: VirtualPath,
        /// The hash that was expected.
        expected: ContentHash,
        /// The hash that was found; `None` when the file is gone.
        found: Option<ContentHash>,
    },
    /// Names in the tree were being renamed all the while.
    #[error(
        "{path} could not be resolved because names were being renamed all the while: try again"
    )]
    Busy {
        /// The path asked for.
        path: VirtualPath,
    },
    /// The kernel said something else.
    #[error("{path}: {source}")]
    Io {
        /// The path asked for.
        path: VirtualPath,
        /// What the kernel said.
        source: io::Error,
    },
}

/// What a path was expected to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// An empty directory.
    EmptyDirectory,
}

impl Entry {
    fn words(self) -> &'static str {
        match self {
            Self::File => "a regular file",
            Self::Directory => "a directory",
            Self::EmptyDirectory => "an empty directory",
        }
    }
}

/// Puts the path to what the kernel said.
pub(crate) trait Context<T> {
    fn at(self, path: &VirtualPath) -> Result<T, FileError>;
}

impl<T> Context<T> for Result<T, Errno> {
    fn at(self, path: &VirtualPath) -> Result<T, FileError> {
        self.map_err(|errno| {
            let path = path.clone();
            match errno {
                Errno::NOENT => FileError::NotFound { path },
                Errno::XDEV | Errno::LOOP => FileError::Link { path },
                Errno::NOTDIR => FileError::Kind { path, expected: Entry::Directory },
                Errno::ISDIR => FileError::Kind { path, expected: Entry::File },
                Errno::NOTEMPTY => FileError::Kind { path, expected: Entry::EmptyDirectory },
                Errno::EXIST => FileError::Exists { path },
                Errno::AGAIN => FileError::Busy { path },
                Errno::ROFS => FileError::ReadOnly { path },
                errno => FileError::Io { path, source: errno.into() },
            }
        })
    }
}

impl<T> Context<T> for io::Result<T> {
    fn at(self, path: &VirtualPath) -> Result<T, FileError> {
        self.map_err(|source| FileError::Io { path: path.clone(), source })
    }
}
