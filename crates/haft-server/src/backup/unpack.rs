//! Putting a backup back into an empty directory.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Read, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use haft_core::Digest;
use sha2::{Digest as _, Sha256};

use super::tar::{Entry, Kind, filling, read_header};
use super::{DATABASE, FORMAT, LABEL, Label, MANIFEST, Manifest, as_text};

const PIECE: usize = 256 * 1024;

/// The longest label and manifest that are read: about a million files.
const TEXT_MAX: u64 = 1 << 28;

/// Why a backup was not put back.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The file is not a backup, or not all of one.
    #[error("it is not a whole backup: {0}")]
    NotWhole(String),
    /// A newer Haft wrote it.
    #[error("it has format {found}, and this haft reads formats up to {FORMAT}")]
    Newer {
        /// Its format.
        found: u32,
    },
    /// It could not be read, or not be written.
    #[error("{what}: {source}")]
    File {
        /// What was being done.
        what: String,
        /// What went wrong.
        source: io::Error,
    },
}

/// What was unpacked, to be compared with the list at the end.
#[derive(Default)]
struct BackupReader {
    label: Option<Label>,
    manifest: Option<Manifest>,
    hashes: BTreeMap<String, (u64, Digest)>,
    /// Made at the end, so that nothing is ever written through them.
    links: Vec<(PathBuf, Vec<u8>)>,
    /// Given at the end, because nothing can be put into a directory that may not be written.
    modes: Vec<(PathBuf, u32)>,
}

/// Unpacks a backup into an empty directory, and checks every file against its hash. What it says
/// of itself is returned; after an error the directory is not to be used.
///
/// # Errors
///
/// When it was cut off or changed, or is none at all.
pub fn unpack(mut from: impl Read, into: &Path) -> Result<Label, UnpackError> {
    let mut unpacked = BackupReader::default();
    loop {
        let entry = match read_header(&mut from) {
            Ok(Some(entry)) => entry,
            Ok(None) => break,
            Err(error) => return Err(not_whole(error)),
        };
        if unpacked.manifest.is_some() {
            return Err(UnpackError::NotWhole("something follows its list of files".to_owned()));
        }
        unpacked.take(&mut from, into, &entry)?;
        if unpacked.label.is_none() {
            return Err(UnpackError::NotWhole("it does not begin like one".to_owned()));
        }
    }
    unpacked.finish(into)
}

fn not_whole(error: io::Error) -> UnpackError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => UnpackError::NotWhole("it was cut off".to_owned()),
        io::ErrorKind::InvalidData => UnpackError::NotWhole(error.to_string()),
        _ => UnpackError::File { what: "reading the backup".to_owned(), source: error },
    }
}

impl BackupReader {
    fn take(&mut self, from: &mut dyn Read, into: &Path, entry: &Entry) -> Result<(), UnpackError> {
        let name = as_text(&entry.path);
        let path = below(into, &entry.path)
            .ok_or_else(|| UnpackError::NotWhole(format!("`{name}` leads out of it")))?;
        let making = |source| UnpackError::File { what: format!("making `{name}`"), source };
        match entry.kind {
            Kind::Directory => {
                DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(making)?;
                self.modes.push((path, entry.mode));
            }
            Kind::Link => self.links.push((path, entry.target.clone())),
            Kind::File if name == LABEL || name == MANIFEST => self.text(from, entry, &name)?,
            Kind::File => {
                let hash = copy(from, entry.size, &path, &name)?;
                self.hashes.insert(name, (entry.size, hash));
                self.modes.push((path, entry.mode));
            }
        }
        Ok(())
    }

    /// Reads what the backup says of itself.
    fn text(&mut self, from: &mut dyn Read, entry: &Entry, name: &str) -> Result<(), UnpackError> {
        if entry.size > TEXT_MAX {
            return Err(UnpackError::NotWhole(format!("`{name}` is too long")));
        }
        let mut text = vec![0; entry.size as usize + filling(entry.size).len()];
        from.read_exact(&mut text).map_err(not_whole)?;
        text.truncate(entry.size as usize);
        let unreadable =
            |error: serde_json::Error| UnpackError::NotWhole(format!("`{name}`: {error}"));
        if name == MANIFEST {
            self.manifest = Some(serde_json::from_slice(&text).map_err(unreadable)?);
            return Ok(());
        }
        let label: Label = serde_json::from_slice(&text).map_err(unreadable)?;
        if label.format > FORMAT {
            return Err(UnpackError::Newer { found: label.format });
        }
        self.label = Some(label);
        self.hashes.insert(name.to_owned(), (entry.size, Digest::of_bytes(&text)));
        Ok(())
    }

    fn finish(mut self, into: &Path) -> Result<Label, UnpackError> {
        let manifest = self.manifest.take();
        let manifest =
            manifest.ok_or_else(|| UnpackError::NotWhole("it was cut off".to_owned()))?;
        for listed in manifest.files {
            let found = self.hashes.remove(&listed.path);
            if found != Some((listed.bytes, listed.sha256)) {
                let why = format!("`{}` is missing, or is not what was backed up", listed.path);
                return Err(UnpackError::NotWhole(why));
            }
        }
        if let Some(extra) = self.hashes.keys().next() {
            return Err(UnpackError::NotWhole(format!("`{extra}` is not in its list of files")));
        }
        if !into.join(DATABASE).exists() {
            return Err(UnpackError::NotWhole("there is no database in it".to_owned()));
        }
        let file = |path: &Path| format!("making `{}`", path.display());
        for (path, target) in &self.links {
            symlink(OsStr::from_bytes(target), path)
                .map_err(|source| UnpackError::File { what: file(path), source })?;
        }
        for (path, mode) in self.modes.iter().rev() {
            fs::set_permissions(path, Permissions::from_mode(mode & 0o777))
                .map_err(|source| UnpackError::File { what: file(path), source })?;
        }
        self.label.ok_or_else(|| UnpackError::NotWhole("it does not begin like one".to_owned()))
    }
}

fn copy(from: &mut dyn Read, size: u64, to: &Path, name: &str) -> Result<Digest, UnpackError> {
    let writing = |source| UnpackError::File { what: format!("writing `{name}`"), source };
    if let Some(parent) = to.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(writing)?;
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
    let mut file = file.map_err(writing)?;
    let (mut left, mut hash, mut piece) = (size, Sha256::new(), vec![0; PIECE]);
    while left > 0 {
        let wanted = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        from.read_exact(&mut piece[..wanted]).map_err(not_whole)?;
        hash.update(&piece[..wanted]);
        file.write_all(&piece[..wanted]).map_err(writing)?;
        left -= wanted as u64;
    }
    file.sync_all().map_err(writing)?;
    let mut rest = filling(size).to_vec();
    from.read_exact(&mut rest).map_err(not_whole)?;
    Ok(Digest::from_bytes(hash.finalize().into()))
}

/// Returns where an entry goes; `None` if that is not below the directory.
fn below(into: &Path, path: &[u8]) -> Option<PathBuf> {
    let path = Path::new(OsStr::from_bytes(path));
    let is_plain = |component: Component<'_>| matches!(component, Component::Normal(_));
    let has_any = path.components().next().is_some();
    (has_any && path.components().all(is_plain)).then(|| into.join(path))
}
