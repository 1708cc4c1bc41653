//! Writing a file: all of it or nothing, and only over what was expected there.

use super::beneath::open_at;
use super::{ContentHash, Context as _, Entry, FileError, Files, Resolve};
use crate::mounts::Located;
use crate::virtual_path::VirtualPath;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

/// What must be at the place for the write to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A regular file or nothing.
    Anything,
    /// Nothing.
    Absent,
    /// A file with this content.
    Content(ContentHash),
}

/// What to do about directories that are missing on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parents {
    /// Make them.
    Create,
    /// Refuse.
    MustExist,
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Whether the file is new.
    pub created: bool,
    /// The hash of its content now.
    pub hash: ContentHash,
}

const FILE_MODE: Mode = Mode::from_raw_mode(0o644);
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o755);

impl Files {
    /// Writes a file: a new one beside it, on the disk, then renamed over it.
    ///
    /// # Errors
    /// When the place is not writable, something other than expected is there, or the path goes through
    /// a link. Then the old content stands.
    pub fn write(
        &self,
        path: &VirtualPath,
        content: &[u8],
        expected: Expected,
        parents: Parents,
    ) -> Result<Written, FileError> {
        let located = self.locate_for_change(path)?;
        let wrong_kind = || FileError::Kind { path: path.clone(), expected: Entry::File };
        let Some(name) = located.relative.file_name().filter(|_| !path.means_a_directory()) else {
            return Err(wrong_kind());
        };
        let directory = open_parent(&located, parents).at(path)?;
        let place = Place { directory: directory.as_fd(), name, path };
        let old = place.old()?;
        if expected == Expected::Absent && old.is_some() {
            return Err(FileError::Exists { path: path.clone() });
        }
        let fresh = Fresh::create(directory.as_fd()).at(path)?;
        fresh.fill(content, old.as_ref()).at(path)?;
        place.put(fresh, expected)?;
        Ok(Written { created: old.is_none(), hash: ContentHash::of(content) })
    }
}

/// The directory that a path stands in, reached without links.
pub(super) fn open_parent(located: &Located<'_>, parents: Parents) -> Result<OwnedFd, Errno> {
    let parent = located.relative.parent().unwrap_or_else(|| Path::new(""));
    open_directory(located.mounted.directory(), parent, parents)
}

pub(crate) fn open_directory(
    root: BorrowedFd<'_>,
    path: &Path,
    parents: Parents,
) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    match open_at(root, path, flags, Mode::empty(), Resolve::NoLinks) {
        Err(Errno::NOENT) if parents == Parents::Create => {}
        answer => return answer,
    }
    let mut directory = open_at(root, Path::new(""), flags, Mode::empty(), Resolve::NoLinks)?;
    for name in path {
        match rustix::fs::mkdirat(&directory, name, DIRECTORY_MODE) {
            Ok(()) => rustix::fs::fsync(&directory)?,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        directory =
            open_at(directory.as_fd(), Path::new(name), flags, Mode::empty(), Resolve::NoLinks)?;
    }
    Ok(directory)
}

/// A name in a directory held open.
struct Place<'a> {
    directory: BorrowedFd<'a>,
    name: &'a OsStr,
    path: &'a VirtualPath,
}

impl Place<'_> {
    /// The file that is there; refuses anything that may not be replaced.
    fn old(&self) -> Result<Option<Stat>, FileError> {
        let path = || self.path.clone();
        let stat = match rustix::fs::statat(self.directory, self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(None),
            answer => answer.at(self.path)?,
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if stat.st_nlink > 1 => {
                Err(FileError::HardLinked { path: path(), links: stat.st_nlink })
            }
            FileType::RegularFile => Ok(Some(stat)),
            FileType::Symlink => Err(FileError::Link { path: path() }),
            _ => Err(FileError::Kind { path: path(), expected: Entry::File }),
        }
    }

    fn put(&self, fresh: Fresh<'_>, expected: Expected) -> Result<(), FileError> {
        match expected {
            Expected::Anything => self.rename(&fresh, RenameFlags::empty())?,
            Expected::Absent => self.rename(&fresh, RenameFlags::NOREPLACE)?,
            Expected::Content(hash) => {
                self.exchange(&fresh, hash)?;
                rustix::fs::fsync(self.directory).at(self.path)?;
                return Ok(()); // Dropping `fresh` removes the old file, which has its name now.
            }
        }
        fresh.keep();
        rustix::fs::fsync(self.directory).at(self.path)
    }

    /// Swaps, and looks at what came out: so nobody can change the file between the look and the swap.
    fn exchange(&self, fresh: &Fresh<'_>, expected: ContentHash) -> Result<(), FileError> {
        let changed = |found| Err(FileError::Changed { path: self.path.clone(), expected, found });
        let before = self.hash(self.name)?;
        if before != Some(expected) {
            return changed(before);
        }
        match self.rename(fresh, RenameFlags::EXCHANGE) {
            Err(FileError::NotFound { .. }) => return changed(None),
            answer => answer?,
        }
        let found = self.hash(&fresh.name)?;
        if found != Some(expected) {
            self.rename(fresh, RenameFlags::EXCHANGE)?;
            return changed(found);
        }
        Ok(())
    }

    fn hash(&self, name: &OsStr) -> Result<Option<ContentHash>, FileError> {
        let opened = open_at(
            self.directory,
            Path::new(name),
            OFlags::RDONLY | OFlags::NOFOLLOW,
            Mode::empty(),
            Resolve::NoLinks,
        );
        let mut content = Vec::new();
        match opened {
            Err(Errno::NOENT) => return Ok(None),
            answer => File::from(answer.at(self.path)?).read_to_end(&mut content).at(self.path)?,
        };
        Ok(Some(ContentHash::of(&content)))
    }

    fn rename(&self, fresh: &Fresh<'_>, flags: RenameFlags) -> Result<(), FileError> {
        rustix::fs::renameat_with(self.directory, &fresh.name, self.directory, self.name, flags)
            .at(self.path)
    }
}

/// Gives something to the owner of something else. Only root can; for others it stays theirs.
fn give_to(file: BorrowedFd<'_>, like: &Stat) -> Result<(), Errno> {
    let found = rustix::fs::fstat(file)?;
    if (found.st_uid, found.st_gid) == (like.st_uid, like.st_gid) {
        return Ok(());
    }
    let (owner, group) =
        (rustix::fs::Uid::from_raw(like.st_uid), rustix::fs::Gid::from_raw(like.st_gid));
    match rustix::fs::fchown(file, Some(owner), Some(group)) {
        Err(Errno::PERM) => Ok(()),
        answer => answer,
    }
}

/// A new file under a name nobody knows; removed when dropped, unless kept.
struct Fresh<'a> {
    directory: BorrowedFd<'a>,
    name: OsString,
    file: File,
    kept: bool,
}

impl<'a> Fresh<'a> {
    fn create(directory: BorrowedFd<'a>) -> Result<Self, Errno> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|_| Errno::AGAIN)?;
        let name = OsString::from(format!(".haft-{:016x}.tmp", u64::from_ne_bytes(random)));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let file = open_at(directory, Path::new(&name), flags, FILE_MODE, Resolve::NoLinks)?;
        Ok(Self { directory, name, file: File::from(file), kept: false })
    }

    fn fill(&self, content: &[u8], old: Option<&Stat>) -> std::io::Result<()> {
        match old {
            Some(old) => {
                give_to(self.file.as_fd(), old)?;
                rustix::fs::fchmod(&self.file, Mode::from_raw_mode(old.st_mode & 0o777))?;
            }
            None => give_to(self.file.as_fd(), &rustix::fs::fstat(self.directory)?)?,
        }
        (&self.file).write_all(content)?;
        self.file.sync_all()
    }

    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Fresh<'_> {
    fn drop(&mut self) {
        if !self.kept {
            // What cannot be removed is a stray file with a telling name; the operation's own error matters more.
            rustix::fs::unlinkat(self.directory, &self.name, AtFlags::empty()).ok();
        }
    }
}
