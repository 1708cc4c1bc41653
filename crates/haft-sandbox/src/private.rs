//! Places of the host that no root may show: the state of the program that runs the sandbox.
//!
//! A program declares them once, before it opens its first root. Every root passes here when it is
//! opened ([`crate::mounts::Mounts::open`]), every file operation below it asks here, and every
//! sandbox has an empty mount over what of it lies below something that it shows. A place is known
//! by its device and inode as well as by its path, so links, binds and renames do not lead to it.

use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// What this process has declared so far.
static DECLARED: RwLock<Vec<Arc<Place>>> = RwLock::new(Vec::new());

/// The device and number by which a file is known whatever its name.
pub(crate) type Identity = (u64, u64);

/// Keeps a directory out of every root that is opened from now on, with all that is in it.
///
/// Directories below those of its entries that are named in `lends` may be roots themselves: where a
/// program keeps the workspaces that it hands out.
///
/// # Errors
/// When the directory cannot be opened.
pub fn declare_directory(path: &Path, lends: &[&str]) -> io::Result<()> {
    let held = open_directory(path)?;
    let identity = identity_of(&rustix::fs::fstat(&held)?);
    let lends = lends.iter().map(OsString::from).collect();
    declare(Place::Directory { held, identity, lends });
    Ok(())
}

/// Keeps a file out of every root that is opened from now on, whether or not there is one yet: it
/// can neither be read nor made. A link is kept out together with what it leads to.
///
/// # Errors
/// When the directory that it stands in cannot be opened.
pub fn declare_file(path: &Path) -> io::Result<()> {
    declare(Place::file(path)?);
    if let Ok(target) = path.canonicalize()
        && std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
    {
        declare(Place::file(&target)?);
    }
    Ok(())
}

fn declare(place: Place) {
    let mut declared = DECLARED.write().unwrap_or_else(PoisonError::into_inner);
    if !declared.iter().any(|known| **known == place) {
        declared.push(Arc::new(place));
    }
}

/// The private places of this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Private {
    places: Vec<Arc<Place>>,
}

#[derive(Debug)]
enum Place {
    Directory {
        /// Held open, so that its number is not given to another and it is found when renamed.
        held: OwnedFd,
        identity: Identity,
        /// Entries below which roots may lie.
        lends: Vec<OsString>,
    },
    /// A file by its name: it may be replaced by another at any time.
    File { parent: OwnedFd, parent_identity: Identity, name: OsString },
}

/// A private place that is there now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PresentPlace {
    pub(crate) path: PathBuf,
    pub(crate) identity: Identity,
    pub(crate) is_directory: bool,
}

impl Private {
    /// What was declared until now.
    pub(crate) fn declared() -> Self {
        Self { places: DECLARED.read().unwrap_or_else(PoisonError::into_inner).clone() }
    }

    /// Whether a directory lies within a private place, so that it cannot be a root.
    pub(crate) fn refuses_root(&self, directory: BorrowedFd<'_>) -> io::Result<bool> {
        if self.places.is_empty() {
            return Ok(false);
        }
        let mut way: Vec<Identity> = Vec::new();
        for above in ancestors(&path_of(directory)?) {
            let identity = above?;
            if let Some(place) = self.directory(identity) {
                // The entry of the place that the way leads through; what is lent lies below it.
                let (entry, deeper) = (way.last(), way.len() > 1);
                return Ok(!entry.is_some_and(|entry| deeper && place.lends_below(*entry)));
            }
            way.push(identity);
        }
        Ok(false)
    }

    /// Whether an open file or directory is a private place, or lies in one. `root` is where to stop.
    pub(crate) fn holds(&self, file: BorrowedFd<'_>, root: Identity) -> io::Result<bool> {
        if self.places.is_empty() {
            return Ok(false);
        }
        let own = identity_of(&rustix::fs::fstat(file)?);
        if self.is_private(own) {
            return Ok(true);
        }
        if own == root {
            return Ok(false);
        }
        for above in ancestors(&path_of(file)?).skip(1) {
            match above {
                Ok(identity) if identity == root => return Ok(false),
                Ok(identity) if self.directory(identity).is_some() => return Ok(true),
                // What was removed or renamed meanwhile has no such ancestor any more.
                Ok(_) | Err(_) => {}
            }
        }
        Ok(false)
    }

    /// Whether an entry of a directory is a private place, or would become one.
    pub(crate) fn reserves(&self, directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<bool> {
        if self.places.is_empty() {
            return Ok(false);
        }
        let parent = identity_of(&rustix::fs::fstat(directory)?);
        if self.places.iter().any(|place| place.is_named(parent, name)) {
            return Ok(true);
        }
        let found = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
        Ok(found.is_ok_and(|found| self.is_private(identity_of(&found))))
    }

    /// Whether a private place lies below an entry of a directory: moved away, it would be moved with
    /// it, and another could be made in its stead.
    pub(crate) fn lies_below(&self, directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<bool> {
        if self.places.is_empty() {
            return Ok(false);
        }
        let found = match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => identity_of(&found),
            Err(_) => return Ok(false),
        };
        for place in &self.places {
            if ancestors(&path_of(place.anchor())?).any(|above| above.is_ok_and(|it| it == found)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The private places that are there now, for the tree of a sandbox.
    pub(crate) fn present(&self) -> io::Result<Vec<PresentPlace>> {
        let mut present = Vec::new();
        for place in &self.places {
            let path = path_of(place.anchor())?;
            match place.as_ref() {
                Place::Directory { identity, .. } => {
                    present.push(PresentPlace { path, identity: *identity, is_directory: true });
                }
                Place::File { name, .. } => {
                    if let Some(identity) = place.identity() {
                        let path = path.join(name);
                        present.push(PresentPlace { path, identity, is_directory: false });
                    }
                }
            }
        }
        Ok(present)
    }

    /// The identities of all that is private now.
    pub(crate) fn identities(&self) -> Vec<Identity> {
        self.places.iter().filter_map(|place| place.identity()).collect()
    }

    fn is_private(&self, identity: Identity) -> bool {
        self.places.iter().any(|place| place.identity() == Some(identity))
    }

    fn directory(&self, identity: Identity) -> Option<&Place> {
        let is_it = |place: &&Arc<Place>| matches!(place.as_ref(), Place::Directory { identity: own, .. } if *own == identity);
        self.places.iter().find(is_it).map(AsRef::as_ref)
    }
}

impl Place {
    fn file(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let parent = open_directory(path.parent().unwrap_or_else(|| Path::new("/")))?;
        let parent_identity = identity_of(&rustix::fs::fstat(&parent)?);
        Ok(Self::File { parent, parent_identity, name })
    }

    /// The directory that it is, or that it stands in.
    fn anchor(&self) -> BorrowedFd<'_> {
        match self {
            Self::Directory { held, .. } => held.as_fd(),
            Self::File { parent, .. } => parent.as_fd(),
        }
    }

    /// What it is now; `None` while there is no such file.
    fn identity(&self) -> Option<Identity> {
        match self {
            Self::Directory { identity, .. } => Some(*identity),
            Self::File { parent, name, .. } => {
                let found = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
                found.ok().map(|found| identity_of(&found))
            }
        }
    }

    fn is_named(&self, parent: Identity, name: &OsStr) -> bool {
        match self {
            Self::Directory { .. } => false,
            Self::File { parent_identity, name: own, .. } => {
                *parent_identity == parent && own.eq_ignore_ascii_case(name)
            }
        }
    }

    /// Whether roots may lie below this entry.
    fn lends_below(&self, entry: Identity) -> bool {
        let Self::Directory { held, lends, .. } = self else { return false };
        lends.iter().any(|name| {
            let found = rustix::fs::statat(held, name, AtFlags::SYMLINK_NOFOLLOW);
            found.is_ok_and(|found| identity_of(&found) == entry)
        })
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Directory { identity, lends, .. },
                Self::Directory { identity: other, lends: others, .. },
            ) => (identity, lends) == (other, others),
            (
                Self::File { parent_identity, name, .. },
                Self::File { parent_identity: parent, name: other, .. },
            ) => (parent_identity, name) == (parent, other),
            _ => false,
        }
    }
}

pub(crate) fn identity_of(found: &Stat) -> Identity {
    (found.st_dev, found.st_ino)
}

/// Where an open file is now.
pub(crate) fn path_of(file: BorrowedFd<'_>) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// The identities of a path and of every directory above it, from the inside out.
fn ancestors(path: &Path) -> impl Iterator<Item = io::Result<Identity>> + '_ {
    path.ancestors().map(|above| {
        let found = rustix::fs::statat(rustix::fs::CWD, above, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(identity_of(&found))
    })
}

fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}
