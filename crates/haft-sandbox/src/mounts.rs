//! The roots that are mounted, and where in them a virtual path lies.

use crate::private::{Identity, Private, identity_of};
use crate::virtual_path::VirtualPath;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What may be done below a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Look, and nothing else.
    ReadOnly,
    /// Look and change.
    ReadWrite,
}

/// A directory of the host to be mounted.
#[derive(Clone, Debug)]
pub struct Root {
    /// Where it is seen: `/workspace`.
    pub at: VirtualPath,
    /// Where it lies on the host.
    pub host: PathBuf,
    /// What may be done in it.
    pub access: Access,
}

/// Names below which nothing is written by file operations, in any case, at any depth: what a tool of
/// the host would later run.
const PROTECTED: &[&str] = &[".git"];

/// The mounted roots, each held open, so that a directory swapped on the host later is not followed.
#[derive(Clone, Debug)]
pub struct Mounts {
    roots: Arc<[Mounted]>,
    private: Private,
}

#[derive(Debug)]
pub(crate) struct Mounted {
    pub(crate) root: Root,
    pub(crate) identity: Identity,
    directory: OwnedFd,
}

/// Where a virtual path lies.
#[derive(Clone, Debug)]
pub(crate) struct Located<'a> {
    pub(crate) mounted: &'a Mounted,
    /// Relative to the root; empty for the root itself.
    pub(crate) relative: PathBuf,
}

/// Why roots cannot be mounted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// The host's directory could not be opened.
    #[error("the directory {} to be mounted at {at} cannot be opened: {source}", host.display())]
    Open {
        /// Where it should be seen.
        at: VirtualPath,
        /// The host's directory.
        host: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The host's directory is part of the state of the program itself.
    #[error(
        "the directory {} cannot be mounted at {at}: it lies in this program's own data, which no tool may reach; choose another directory, or keep the data elsewhere",
        host.display()
    )]
    Private {
        /// Where it should be seen.
        at: VirtualPath,
        /// The host's directory.
        host: PathBuf,
    },
    /// Two roots at one place, or a root at the top.
    #[error("the mount point {at} is taken or is the top: give every root a place of its own")]
    Place {
        /// The place asked for.
        at: VirtualPath,
    },
}

impl Mounts {
    /// Opens every root. What was declared private until now ([`crate::private`]) cannot be reached
    /// through any of them.
    ///
    /// # Errors
    /// When a directory cannot be opened or lies in a private place, or two roots want one place.
    pub fn open(roots: impl IntoIterator<Item = Root>) -> Result<Self, MountError> {
        let private = Private::declared();
        let mut mounted: Vec<Mounted> = Vec::new();
        for root in roots {
            if root.at.depth() == 0 || mounted.iter().any(|other| other.root.at == root.at) {
                return Err(MountError::Place { at: root.at });
            }
            mounted.push(Mounted::open(root, &private)?);
        }
        Ok(Self { roots: mounted.into(), private })
    }

    /// The roots, in the order they were given.
    pub fn roots(&self) -> impl Iterator<Item = &Root> {
        self.roots.iter().map(|mounted| &mounted.root)
    }

    /// What no root shows.
    pub(crate) fn private(&self) -> &Private {
        &self.private
    }

    pub(crate) fn mounted(&self) -> impl Iterator<Item = &Mounted> {
        self.roots.iter()
    }

    /// The innermost root that holds the path.
    pub(crate) fn locate(&self, path: &VirtualPath) -> Option<Located<'_>> {
        let holds = self.roots.iter().filter(|mounted| path.starts_with(&mounted.root.at));
        let mounted = holds.max_by_key(|mounted| mounted.root.at.depth())?;
        Some(Located { mounted, relative: path.below(mounted.root.at.depth()) })
    }
}

impl Mounted {
    fn open(root: Root, private: &Private) -> Result<Self, MountError> {
        let opened = Self::open_host(&root.host, private);
        let (directory, identity, refused) = match opened {
            Ok(opened) => opened,
            Err(source) => return Err(MountError::Open { at: root.at, host: root.host, source }),
        };
        if refused {
            return Err(MountError::Private { at: root.at, host: root.host });
        }
        Ok(Self { root, identity, directory })
    }

    fn open_host(host: &Path, private: &Private) -> io::Result<(OwnedFd, Identity, bool)> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(host, flags, Mode::empty())?;
        let identity = identity_of(&rustix::fs::fstat(&directory)?);
        let refused = private.refuses_root(directory.as_fd())?;
        Ok((directory, identity, refused))
    }

    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

/// Whether writing there would change what a tool of the host runs.
pub(crate) fn is_protected(relative: &Path) -> bool {
    relative.iter().any(|name| PROTECTED.iter().any(|protected| same_name(name, protected)))
}

fn same_name(name: &OsStr, protected: &str) -> bool {
    name.eq_ignore_ascii_case(protected)
}
