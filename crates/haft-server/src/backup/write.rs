//! Writing a backup, while the store is in use.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use haft_core::{Digest, Timestamp};
use haft_store::Store;
use sha2::{Digest as _, Sha256};

use super::tar::{BLOCK, Entry, Kind, filling, write_header};
use super::{DATABASE, FORMAT, LABEL, Label, ListedFile, MANIFEST, Manifest, as_text};

/// How much of a file is read at once.
const PIECE: usize = 256 * 1024;

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The database could not be copied.
    #[error("the database could not be copied: {0}")]
    Store(#[from] haft_store::Error),
    /// A file could not be read, or the backup could not be written.
    #[error("{what}: {source}")]
    File {
        /// What was being done.
        what: String,
        /// What went wrong.
        source: io::Error,
    },
}

/// Writes a backup of an embedded store and of everything else in its data directory. The database
/// is as of one moment, `now`; files that are changed meanwhile are as they are when it comes to
/// them.
///
/// # Errors
///
/// When the database cannot be copied, a file cannot be read, or `out` does not take it.
pub async fn write<W>(
    store: &Store,
    data: &Path,
    now: Timestamp,
    mut out: W,
) -> Result<(), BackupError>
where
    W: Write + Send + 'static,
{
    let copy = DatabaseCopy::prepare(data)?;
    store.copy_to(&copy.0).await?;
    let data = data.to_owned();
    let written = tokio::task::spawn_blocking(move || {
        let mut archive = Archive { out: &mut out, manifest: Manifest::default() };
        archive.label(now)?;
        archive.database(copy)?;
        archive.directory(&data, Path::new(""))?;
        archive.finish()
    });
    written.await.unwrap_or_else(|error| Err(during("writing the backup")(io::Error::other(error))))
}

fn during(what: impl Into<String>) -> impl FnOnce(io::Error) -> BackupError {
    let what = what.into();
    move |source| BackupError::File { what, source }
}

/// The copy of the database, which is gone when this is dropped.
struct DatabaseCopy(PathBuf);

impl DatabaseCopy {
    /// Makes an empty file that only this user can read. The store removes what a process that was
    /// killed has left behind.
    fn prepare(data: &Path) -> Result<Self, BackupError> {
        for n in 0_u32.. {
            let path = data.join(format!("{DATABASE}{}{n}", haft_store::COPY_MARK));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(_) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(during(format!("making `{}`", path.display()))(error)),
            }
        }
        Err(during("making a copy of the database")(io::ErrorKind::AlreadyExists.into()))
    }
}

impl Drop for DatabaseCopy {
    fn drop(&mut self) {
        // What stays is removed when the store is opened next.
        drop(fs::remove_file(&self.0));
    }
}

struct Archive<'a> {
    out: &'a mut (dyn Write + Send),
    manifest: Manifest,
}

impl Archive<'_> {
    fn label(&mut self, now: Timestamp) -> Result<(), BackupError> {
        let haft = env!("CARGO_PKG_VERSION").to_owned();
        let label = Label { format: FORMAT, haft, backed_up_at: now };
        let text = serde_json::to_vec(&label).map_err(io::Error::from);
        let text = text.map_err(during("writing the backup"))?;
        self.bytes(LABEL, &text)
    }

    fn database(&mut self, copy: DatabaseCopy) -> Result<(), BackupError> {
        let file = File::open(&copy.0);
        let file = file.map_err(during(format!("reading `{}`", copy.0.display())))?;
        // It is read to its end all the same, and never found again by anyone else.
        drop(copy);
        self.file(DATABASE.as_bytes().to_vec(), file)
    }

    /// Writes what is in a directory, in the order of the names.
    fn directory(&mut self, data: &Path, below: &Path) -> Result<(), BackupError> {
        let here = data.join(below);
        let listed = fs::read_dir(&here).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let mut listed = match listed {
            Ok(listed) => listed,
            // It was removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(during(format!("reading `{}`", here.display()))(error)),
        };
        listed.sort_by_key(fs::DirEntry::file_name);
        for entry in listed {
            let path = below.join(entry.file_name());
            if below.as_os_str().is_empty() && is_of_the_process(&entry.file_name()) {
                continue;
            }
            self.entry(data, &path)?;
        }
        Ok(())
    }

    fn entry(&mut self, data: &Path, path: &Path) -> Result<(), BackupError> {
        let host = data.join(path);
        let reading = || during(format!("reading `{}`", host.display()));
        let name = path.as_os_str().as_bytes().to_vec();
        let found = match fs::symlink_metadata(&host) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(reading()(error)),
        };
        if found.is_dir() {
            self.header(&entry(name, Kind::Directory, &found))?;
            return self.directory(data, path);
        }
        if found.is_symlink() {
            let target = match fs::read_link(&host) {
                Ok(target) => target.into_os_string().into_vec(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(reading()(error)),
            };
            return self.header(&Entry { target, ..entry(name, Kind::Link, &found) });
        }
        if !found.is_file() {
            // Sockets and pipes belong to processes that will not be there.
            return Ok(());
        }
        // A link that has taken its place meanwhile is not followed.
        let opened = OpenOptions::new().read(true).custom_flags(NO_FOLLOW).open(&host);
        match opened {
            Ok(file) => self.file(name, file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(reading()(error)),
        }
    }

    /// Writes a file as long as it is now. One that shrinks meanwhile is filled up with zeros.
    fn file(&mut self, name: Vec<u8>, file: File) -> Result<(), BackupError> {
        let shown = as_text(&name);
        let reading = || during(format!("reading `{shown}`"));
        let found = file.metadata().map_err(reading())?;
        let header = Entry { size: found.len(), ..entry(name, Kind::File, &found) };
        self.header(&header)?;
        let (mut left, mut hash) = (header.size, Sha256::new());
        let (mut file, mut piece) = (file.take(header.size), vec![0; PIECE]);
        while left > 0 {
            let wanted = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            let read = file.read(&mut piece[..wanted]).map_err(reading())?;
            if read == 0 {
                piece[..wanted].fill(0);
            }
            let read = if read == 0 { wanted } else { read };
            hash.update(&piece[..read]);
            self.put(&piece[..read])?;
            left -= read as u64;
        }
        self.put(filling(header.size))?;
        let sha256 = Digest::from_bytes(hash.finalize().into());
        self.manifest.files.push(ListedFile { path: shown, bytes: header.size, sha256 });
        Ok(())
    }

    fn bytes(&mut self, name: &str, bytes: &[u8]) -> Result<(), BackupError> {
        let size = bytes.len() as u64;
        self.header(&Entry {
            path: name.as_bytes().to_vec(),
            kind: Kind::File,
            mode: 0o600,
            modified: 0,
            size,
            target: Vec::new(),
        })?;
        self.put(bytes)?;
        self.put(filling(size))?;
        let (path, sha256) = (name.to_owned(), Digest::of_bytes(bytes));
        self.manifest.files.push(ListedFile { path, bytes: size, sha256 });
        Ok(())
    }

    fn finish(&mut self) -> Result<(), BackupError> {
        let text = serde_json::to_vec(&self.manifest).map_err(io::Error::from);
        let text = text.map_err(during("writing the backup"))?;
        self.bytes(MANIFEST, &text)?;
        self.put(&[0; 2 * BLOCK])?;
        self.out.flush().map_err(during("writing the backup"))
    }

    fn header(&mut self, entry: &Entry) -> Result<(), BackupError> {
        write_header(self.out, entry).map_err(during("writing the backup"))
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        self.out.write_all(bytes).map_err(during("writing the backup"))
    }
}

/// `O_NOFOLLOW` of Linux.
const NO_FOLLOW: i32 = 0o400_000;

fn entry(path: Vec<u8>, kind: Kind, found: &Metadata) -> Entry {
    let modified = u64::try_from(found.mtime()).unwrap_or(0);
    Entry { path, kind, mode: found.mode(), modified, size: 0, target: Vec::new() }
}

/// Whether a file of the data directory belongs to the process that uses it, or is in the backup in
/// another form.
fn is_of_the_process(name: &std::ffi::OsStr) -> bool {
    let name = name.as_bytes();
    name.starts_with(DATABASE.as_bytes())
        || [&b"haft.lock"[..], b"haft.mark", b"haft.room"].contains(&name)
        || name.starts_with(b"server.json")
}
