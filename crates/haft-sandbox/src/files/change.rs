//! Making, removing and renaming entries.

use super::write::{open_directory, open_parent};
use super::{Context as _, Entry, FileError, Files, Parents};
use crate::mounts::Located;
use crate::virtual_path::VirtualPath;
use rustix::fs::{AtFlags, RenameFlags};
use std::ffi::OsStr;
use std::os::fd::AsFd as _;
use std::path::Path;

/// What may be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoveWhat {
    /// A file or a link; never what a link leads to.
    File,
    /// A directory with nothing in it.
    EmptyDirectory,
}

impl Files {
    /// Makes a directory; one that is there already will do.
    ///
    /// # Errors
    /// When the place is not writable, or is taken by something else.
    pub fn mkdir(&self, path: &VirtualPath, parents: Parents) -> Result<(), FileError> {
        let located = self.locate_for_change(path)?;
        let above = located.relative.parent().unwrap_or_else(|| Path::new(""));
        let root = located.mounted.directory();
        open_directory(root, above, parents).at(path)?;
        open_directory(root, &located.relative, Parents::Create).at(path).map(drop)
    }

    /// Removes an entry.
    ///
    /// # Errors
    /// When the place is not writable, or something else is there.
    pub fn remove(&self, path: &VirtualPath, what: RemoveWhat) -> Result<(), FileError> {
        let located = self.locate_for_change(path)?;
        let name = last_name(&located, path)?;
        let directory = open_parent(&located, Parents::MustExist).at(path)?;
        self.require_movable(directory.as_fd(), name, path)?;
        let flags = match what {
            RemoveWhat::File => AtFlags::empty(),
            RemoveWhat::EmptyDirectory => AtFlags::REMOVEDIR,
        };
        rustix::fs::unlinkat(&directory, name, flags).at(path)?;
        rustix::fs::fsync(&directory).at(path)
    }

    /// Renames an entry; whatever has the new name stays, and the rename is refused.
    ///
    /// # Errors
    /// When either place is not writable, or the new name is taken.
    pub fn rename(&self, from: &VirtualPath, to: &VirtualPath) -> Result<(), FileError> {
        let (old, new) = (self.locate_for_change(from)?, self.locate_for_change(to)?);
        let (old_name, new_name) = (last_name(&old, from)?, last_name(&new, to)?);
        let old_directory = open_parent(&old, Parents::MustExist).at(from)?;
        let new_directory = open_parent(&new, Parents::MustExist).at(to)?;
        self.require_movable(old_directory.as_fd(), old_name, from)?;
        let flags = RenameFlags::NOREPLACE;
        rustix::fs::renameat_with(&old_directory, old_name, &new_directory, new_name, flags)
            .at(to)?;
        rustix::fs::fsync(&new_directory).at(to)?;
        rustix::fs::fsync(&old_directory).at(from)
    }
}

fn last_name<'a>(located: &'a Located<'_>, path: &VirtualPath) -> Result<&'a OsStr, FileError> {
    let a_root = || FileError::Kind { path: path.clone(), expected: Entry::File };
    located.relative.file_name().ok_or_else(a_root)
}
