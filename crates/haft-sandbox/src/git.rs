//! Keeps commands from leaving behind what the host's git would run or follow.
//!
//! A repository is code: git runs what its configuration and hooks name, and follows files that lead
//! to others. What of that is there when a sandbox opens is its owner's. The mounts keep the main
//! repository's read-only; a new file, or a repository made in a subdirectory, no mount can prevent.
//! So a [`Guard`] looks through the writable roots while a sandbox is open: after every command,
//! before its end is told, and from time to time for what runs in the background. What git would run
//! or follow and was not there before gets a name that git does not know, or is removed where it is a
//! link; what was there gets its content back. What is still mounted read-only is its owner's. A repository with nothing but plain settings is left alone, so that `git init`,
//! `git clone` and commits work as ever.

mod harmless;
mod kept;
mod reach;
#[cfg(test)]
mod tests;

pub(crate) use kept::KEPT;

use crate::files::{Resolve, open_at};
use crate::mounts::{Access, Mounted, Mounts};
use crate::private::{Identity, identity_of};
use crate::virtual_path::VirtualPath;
use kept::Kept;
use reach::{Shut, Stamp};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The largest file whose content is kept and judged; git's settings are far smaller.
const LARGEST: u64 = 1 << 20;
/// How often the roots are looked through while nothing ends.
const EVERY: Duration = Duration::from_secs(1);
/// A look that takes long is followed by so many times as long a pause.
const PAUSES: u32 = 20;
/// So much of a name is left when it is set aside, so that there is room for what is added.
const LONGEST: usize = 200;
/// The directories of a repository that may have any name: what else lies beside them may be files
/// of its owner, as where worktrees are made in a bare repository.
const OWN: &[&str] = &[
    "branches",
    "hooks",
    "info",
    "lfs",
    "logs",
    "modules",
    "objects",
    "rebase-apply",
    "rebase-merge",
    "refs",
    "reftable",
    "remotes",
    "rr-cache",
    "sequencer",
    "worktrees",
];

/// What git does with a file or link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It reads settings from it: in the repository itself, or in that of a submodule.
    Config,
    ModuleConfig,
    /// It runs it.
    Hook,
    /// It takes the rest of the repository from where this says.
    CommonDir,
    /// It takes the repository from where this says.
    GitFile,
    /// It goes where this leads, or changes what it does by what this says.
    Followed,
}

/// A file or link that git would heed.
#[derive(Clone, Debug)]
struct HeededPath {
    path: PathBuf,
    role: Role,
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Bytes(Vec<u8>),
    Link(PathBuf),
    /// Too large, not to be read, or no file: its content is never kept and never harmless.
    Other(Option<Stamp>),
}

/// Watches over the writable roots of one sandbox.
#[derive(Debug)]
pub(crate) struct Guard {
    mounts: Mounts,
    /// What commands find read-only.
    kept: Vec<Kept>,
    /// One look at a time.
    looking: Mutex<Looking>,
    closed: Condvar,
}

/// What looks go by.
#[derive(Debug, Default)]
struct Looking {
    /// What is the owner's, by root and path: it was there when the sandbox opened, or has come where
    /// commands cannot write.
    known: BTreeMap<(usize, PathBuf), Content>,
    shut: Shut,
    /// Whether the sandbox is closed.
    is_closed: bool,
}

impl Guard {
    /// Remembers what is there, and begins to watch.
    pub(crate) fn start(mounts: &Mounts) -> std::io::Result<Arc<Self>> {
        let (mut looking, mut kept) = (Looking::default(), Vec::new());
        looking.shut.learning = true;
        for (at, mounted) in writable(mounts) {
            kept.extend(kept::kept(at, mounted, mounts));
            for HeededPath { path, .. } in heeded(mounted, mounts, &mut looking.shut) {
                let content = read(mounted, &path);
                looking.known.extend(content.map(|content| ((at, path), content)));
            }
        }
        looking.shut.learning = false;
        let (looking, closed) = (Mutex::new(looking), Condvar::new());
        let guard = Arc::new(Self { mounts: mounts.clone(), kept, looking, closed });
        let watched = Arc::downgrade(&guard);
        std::thread::Builder::new().name("git guard".to_owned()).spawn(move || watch(&watched))?;
        Ok(guard)
    }

    /// Looks through the roots now. Says what was put out of git's reach, a sentence each.
    pub(crate) fn look(&self) -> Vec<String> {
        self.look_by(&mut self.lock())
    }

    /// Looks for the last time, when nothing runs any more.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.closed.notify_all();
        self.look();
    }

    fn look_by(&self, looking: &mut Looking) -> Vec<String> {
        let mut done = Vec::new();
        for (at, mounted) in writable(&self.mounts) {
            for heeded in heeded(mounted, &self.mounts, &mut looking.shut) {
                let Some(content) = read(mounted, &heeded.path) else { continue };
                let place = (at, heeded.path.clone());
                let known = looking.known.get(&place);
                if known == Some(&content) || harmless::is_harmless(mounted, &heeded, &content) {
                    continue;
                }
                // Asked after the content was read: what is kept now has been kept until now.
                if self.kept.iter().any(|kept| kept.holds(at, mounted, &heeded.path)) {
                    looking.known.insert(place, content);
                    continue;
                }
                let shown = mounted.root.at.join(heeded.path.as_os_str());
                done.push(said(&shown, undo(mounted, &heeded.path, known)));
            }
        }
        done
    }

    fn lock(&self) -> MutexGuard<'_, Looking> {
        self.looking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was done about a path, in a sentence.
fn said(shown: &VirtualPath, done: Result<Remedy, Errno>) -> String {
    match done {
        Ok(Remedy::Restored) => format!(
            "{shown} was restored: git outside the sandbox would have run or followed what was written there"
        ),
        Ok(Remedy::Renamed(name)) => format!(
            "{shown} was renamed to {}: git outside the sandbox would have run or followed it",
            name.display()
        ),
        Ok(Remedy::Removed) => {
            format!("{shown} was removed: git outside the sandbox would have followed this link")
        }
        Err(errno) => format!("{shown} could not be put out of git's reach: {errno}"),
    }
}

/// Looks from time to time, for as long as the sandbox is open.
fn watch(guard: &Weak<Guard>) {
    let mut pause = EVERY;
    loop {
        let Some(guard) = guard.upgrade() else { return };
        let waited = guard.closed.wait_timeout(guard.lock(), pause);
        let (mut looking, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if looking.is_closed {
            return;
        }
        let began = Instant::now();
        guard.look_by(&mut looking);
        pause = EVERY.max(began.elapsed() * PAUSES);
    }
}

fn writable(mounts: &Mounts) -> impl Iterator<Item = (usize, &Mounted)> {
    mounts.mounted().enumerate().filter(|(_, it)| it.root.access == Access::ReadWrite)
}

enum Remedy {
    Restored,
    Renamed(OsString),
    Removed,
}

/// Puts back what was there, or gives what was not a name that means nothing to git.
fn undo(mounted: &Mounted, path: &Path, known: Option<&Content>) -> Result<Remedy, Errno> {
    let parent = path.parent().unwrap_or_else(|| Path::new(""));
    let name = path.file_name().unwrap_or_default();
    let directory = reach::directory_to_change(mounted, parent)?;
    let aside = name_aside(name)?;
    rustix::fs::renameat_with(&directory, name, &directory, &aside, RenameFlags::NOREPLACE)?;
    let found = rustix::fs::statat(&directory, &aside, AtFlags::SYMLINK_NOFOLLOW)?;
    // A link holds nothing but where it leads, and among references and their logs git would follow
    // it by its new name as well.
    let is_link = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
    if is_link {
        rustix::fs::unlinkat(&directory, &aside, AtFlags::empty())?;
    }
    match known {
        Some(Content::Bytes(bytes)) => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            // Its owner can read it, or the next look would not know it again.
            let mode = Mode::from_raw_mode((found.st_mode & 0o777) | 0o600);
            let file = open_at(directory.as_fd(), Path::new(name), flags, mode, Resolve::NoLinks)?;
            let mut file = File::from(file);
            let written = file.write_all(bytes).and_then(|()| file.sync_all());
            written.map_err(|_| Errno::IO)?;
            Ok(Remedy::Restored)
        }
        Some(Content::Link(target)) => {
            rustix::fs::symlinkat(target, &directory, name)?;
            Ok(Remedy::Restored)
        }
        Some(Content::Other(_)) | None if is_link => Ok(Remedy::Removed),
        Some(Content::Other(_)) | None => Ok(Remedy::Renamed(aside)),
    }
}

/// A name for what is set aside, and for nothing else that is there.
fn name_aside(name: &OsStr) -> Result<OsString, Errno> {
    let mut random = [0; 4];
    getrandom::fill(&mut random).map_err(|_| Errno::AGAIN)?;
    let bytes = name.as_bytes();
    let mut aside = OsStr::from_bytes(bytes.get(..LONGEST).unwrap_or(bytes)).to_owned();
    aside.push(format!(".{}{:08x}", harmless::SET_ASIDE, u32::from_ne_bytes(random)));
    Ok(aside)
}

/// What is at a path; `None` when nothing is. A file that cannot be read may yet be run.
fn read(mounted: &Mounted, path: &Path) -> Option<Content> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = mounted.directory();
    let parent = path.parent().unwrap_or_else(|| Path::new(""));
    let directory =
        open_at(root, parent, OFlags::PATH | OFlags::DIRECTORY, Mode::empty(), Resolve::NoLinks);
    let (directory, name) = (directory.ok()?, path.file_name()?);
    let found = match rustix::fs::openat(&directory, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return None,
        Err(_) => return Some(Content::Other(None)),
        Ok(found) => found,
    };
    let Ok(stat) = rustix::fs::fstat(&found) else { return Some(Content::Other(None)) };
    let other = Content::Other(Some(Stamp::of(&stat)));
    Some(match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => match rustix::fs::readlinkat(&found, "", Vec::new()) {
            Ok(target) => Content::Link(PathBuf::from(OsStr::from_bytes(target.as_bytes()))),
            Err(_) => other,
        },
        FileType::RegularFile => {
            let (flags, name) = (OFlags::RDONLY, Path::new(name));
            match open_at(directory.as_fd(), name, flags, Mode::empty(), Resolve::NoLinks) {
                Ok(file) => bytes_of(file).map_or(other, Content::Bytes),
                Err(Errno::NOENT) => return None,
                Err(_) => other,
            }
        }
        // What is in it may change, and git runs none of that.
        FileType::Directory => Content::Other(None),
        _ => other,
    })
}

fn bytes_of(file: OwnedFd) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let count = File::from(file).take(LARGEST + 1).read_to_end(&mut bytes).ok()?;
    (count as u64 <= LARGEST).then_some(bytes)
}

/// Everything below a root that git would heed.
fn heeded(mounted: &Mounted, mounts: &Mounts, shut: &mut Shut) -> Vec<HeededPath> {
    let private = mounts.private().identities();
    let mut walk = Walk { mounted, private, shut, found: Vec::new() };
    let mut left = vec![(PathBuf::new(), Expect::Anything)];
    while let Some((path, expect)) = left.pop() {
        let Some(entries) = walk.entries(&path) else { continue };
        walk.enter(&path, expect, &entries, &mut left);
    }
    walk.found
}

/// What is known of a directory before it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    /// It may be anything, also a repository: by what is in it.
    Anything,
    /// Its name makes it a repository.
    Repository,
    /// It belongs to a repository: git may write through whatever link is in it.
    Inside,
}

struct Walk<'a> {
    mounted: &'a Mounted,
    private: Vec<Identity>,
    shut: &'a mut Shut,
    found: Vec<HeededPath>,
}

type Entries = BTreeMap<OsString, FileType>;

impl Walk<'_> {
    fn open(&mut self, path: &Path) -> Option<OwnedFd> {
        let opened = reach::directory(self.mounted, path, self.shut).ok()?;
        let identity = identity_of(&rustix::fs::fstat(&opened).ok()?);
        (!self.private.contains(&identity)).then_some(opened)
    }

    fn entries(&mut self, path: &Path) -> Option<Entries> {
        let mut entries = Entries::new();
        let mut reader = Dir::new(self.open(path)?).ok()?;
        while let Some(entry) = reader.read() {
            let Ok(entry) = entry else { break };
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let mut kind = entry.file_type();
            if kind == FileType::Unknown {
                let found = rustix::fs::statat(
                    reader.fd().ok()?,
                    entry.file_name(),
                    AtFlags::SYMLINK_NOFOLLOW,
                );
                kind = found.map_or(kind, |found| FileType::from_raw_mode(found.st_mode));
            }
            entries.insert(name.to_owned(), kind);
        }
        Some(entries)
    }

    /// Every directory is looked into, also those of repositories: one may lie in another.
    fn enter(
        &mut self,
        path: &Path,
        expect: Expect,
        entries: &Entries,
        left: &mut Vec<(PathBuf, Expect)>,
    ) {
        let is_named = expect != Expect::Anything;
        let is_repository = expect == Expect::Repository || looks_like_repository(entries);
        if is_repository {
            self.repository(path, entries);
        }
        for (name, kind) in entries {
            let is_git = name.eq_ignore_ascii_case(".git");
            let is_own = is_repository && OWN.iter().any(|own| name == own);
            match kind {
                FileType::Directory if is_git => left.push((path.join(name), Expect::Repository)),
                FileType::Directory if is_named || is_own => {
                    left.push((path.join(name), Expect::Inside));
                }
                FileType::Directory => left.push((path.join(name), Expect::Anything)),
                _ if is_git => self.heed(path.join(name), Role::GitFile),
                FileType::Symlink if is_named || is_repository => {
                    self.heed(path.join(name), Role::Followed);
                }
                _ => {}
            }
        }
    }

    /// Notes what git heeds in the directory of a repository.
    fn repository(&mut self, path: &Path, entries: &Entries) {
        let names: Vec<&OsStr> = path.iter().collect();
        let is_module = names.windows(2).any(|pair| pair == [".git", "modules"]);
        for (name, role) in [
            ("config", if is_module { Role::ModuleConfig } else { Role::Config }),
            ("config.worktree", Role::Config),
            ("commondir", Role::CommonDir),
        ] {
            if entries.contains_key(OsStr::new(name)) {
                self.heed(path.join(name), role);
            }
        }
        for (directory, role) in
            [("hooks", Role::Hook), ("remotes", Role::Followed), ("branches", Role::Followed)]
        {
            match entries.get(OsStr::new(directory)) {
                Some(FileType::Directory) => self.all_of(&path.join(directory), role),
                Some(_) => self.heed(path.join(directory), Role::Followed),
                None => {}
            }
        }
        for (directory, names) in [
            ("info", ["attributes", "grafts"]),
            ("objects/info", ["alternates", "http-alternates"]),
        ] {
            let directory = path.join(directory);
            let inside = self.entries(&directory).unwrap_or_default();
            for name in names.into_iter().filter(|name| inside.contains_key(OsStr::new(name))) {
                self.heed(directory.join(name), Role::Followed);
            }
        }
    }

    fn all_of(&mut self, directory: &Path, role: Role) {
        for (name, _) in self.entries(directory).unwrap_or_default() {
            self.heed(directory.join(name), role);
        }
    }

    fn heed(&mut self, path: PathBuf, role: Role) {
        self.found.push(HeededPath { path, role });
    }
}

/// Whether git would take a directory for a repository, whatever its name.
fn looks_like_repository(entries: &Entries) -> bool {
    let has = |name: &str| entries.contains_key(OsStr::new(name));
    has("HEAD") && (has("commondir") || (has("objects") && has("refs")))
}

/// Whether a change of this path through a file operation would make or alter a repository that has
/// another name than `.git`: git takes any directory with the right entries for one.
pub(crate) fn would_be_repository(mounted: &Mounted, relative: &Path) -> bool {
    const PARTS: [&str; 4] = ["HEAD", "commondir", "objects", "refs"];
    let mut directory = PathBuf::new();
    for name in relative {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let root = mounted.directory();
        let Ok(open) = open_at(root, &directory, flags, Mode::empty(), Resolve::NoLinks) else {
            return false;
        };
        let has = |part: &str| {
            name == part || rustix::fs::statat(&open, part, AtFlags::SYMLINK_NOFOLLOW).is_ok()
        };
        let [head, common, objects, refs] = PARTS.map(has);
        if head && (common || (objects && refs)) {
            return true;
        }
        directory.push(name);
    }
    false
}
