//! Keeps commands from leaving behind what the host's git would run or follow.
//!
//! A repository is code: git runs what its configuration and hooks name, and follows files that lead
//! to others. What of that is there when a sandbox opens is its owner's. The mounts keep the main
//! repository's read-only; a new file, or a repository made in a subdirectory, no mount can prevent.
//! So a [`Guard`] looks through the writable roots while a sandbox is open: after every command,
//! before its end is told, and from time to time for what runs in the background. What git would run
//! or follow and was not there before gets a name that git does not know; what was there gets its
//! content back. A repository with nothing but plain settings is left alone, so that `git init`,
//! `git clone` and commits work as ever.

mod harmless;

use crate::files::{Resolve, open_at};
use crate::mounts::{Access, Mounted, Mounts};
use crate::private::{Identity, identity_of};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags};
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
    /// Too large, or no file: never kept and never harmless.
    Other,
}

/// Watches over the writable roots of one sandbox.
#[derive(Debug)]
pub(crate) struct Guard {
    mounts: Mounts,
    /// What was there when the sandbox opened, by root and path.
    known: BTreeMap<(usize, PathBuf), Content>,
    /// One look at a time; `true` once the sandbox is closed.
    looking: Mutex<bool>,
    closed: Condvar,
}

impl Guard {
    /// Remembers what is there, and begins to watch.
    pub(crate) fn start(mounts: &Mounts) -> std::io::Result<Arc<Self>> {
        let mut known = BTreeMap::new();
        for (at, mounted) in writable(mounts) {
            for HeededPath { path, .. } in heeded(mounted, mounts) {
                let content = read(mounted, &path);
                known.extend(content.map(|content| ((at, path), content)));
            }
        }
        let looking = Mutex::new(false);
        let guard =
            Arc::new(Self { mounts: mounts.clone(), known, looking, closed: Condvar::new() });
        let watched = Arc::downgrade(&guard);
        std::thread::Builder::new().name("git guard".to_owned()).spawn(move || watch(&watched))?;
        Ok(guard)
    }

    /// Looks through the roots now. Says what was put out of git's reach, a sentence each.
    pub(crate) fn look(&self) -> Vec<String> {
        let _one_at_a_time = self.lock();
        self.look_locked()
    }

    /// Looks for the last time, when nothing runs any more.
    pub(crate) fn close(&self) {
        *self.lock() = true;
        self.closed.notify_all();
        self.look();
    }

    fn look_locked(&self) -> Vec<String> {
        let mut done = Vec::new();
        for (at, mounted) in writable(&self.mounts) {
            for heeded in heeded(mounted, &self.mounts) {
                let Some(content) = read(mounted, &heeded.path) else { continue };
                let known = self.known.get(&(at, heeded.path.clone()));
                if known == Some(&content) || harmless::is_harmless(&heeded, &content) {
                    continue;
                }
                let shown = mounted.root.at.join(heeded.path.as_os_str());
                done.push(match undo(mounted, &heeded.path, known) {
                    Ok(Remedy::Restored) => format!(
                        "{shown} was restored: git outside the sandbox would have run or followed what was written there"
                    ),
                    Ok(Remedy::Renamed(name)) => format!(
                        "{shown} was renamed to {}: git outside the sandbox would have run or followed it",
                        name.display()
                    ),
                    Err(errno) => format!("{shown} could not be put out of git's reach: {errno}"),
                });
            }
        }
        done
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.looking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks from time to time, for as long as the sandbox is open.
fn watch(guard: &Weak<Guard>) {
    let mut pause = EVERY;
    loop {
        let Some(guard) = guard.upgrade() else { return };
        let waited = guard.closed.wait_timeout(guard.lock(), pause);
        let (closed, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *closed {
            return;
        }
        let began = Instant::now();
        guard.look_locked();
        pause = EVERY.max(began.elapsed() * PAUSES);
    }
}

fn writable(mounts: &Mounts) -> impl Iterator<Item = (usize, &Mounted)> {
    mounts.mounted().enumerate().filter(|(_, it)| it.root.access == Access::ReadWrite)
}

enum Remedy {
    Restored,
    Renamed(OsString),
}

/// Puts back what was there, or gives what was not a name that means nothing to git.
fn undo(
    mounted: &Mounted,
    path: &Path,
    known: Option<&Content>,
) -> Result<Remedy, rustix::io::Errno> {
    let parent = path.parent().unwrap_or_else(|| Path::new(""));
    let name = path.file_name().unwrap_or_default();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let directory = open_at(mounted.directory(), parent, flags, Mode::empty(), Resolve::NoLinks)?;
    let mut random = [0; 4];
    getrandom::fill(&mut random).map_err(|_| rustix::io::Errno::AGAIN)?;
    let mut aside = name.to_owned();
    aside.push(format!(".quarantined-{:08x}", u32::from_ne_bytes(random)));
    rustix::fs::renameat_with(&directory, name, &directory, &aside, RenameFlags::NOREPLACE)?;
    match known {
        Some(Content::Bytes(bytes)) => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            let like = rustix::fs::statat(&directory, &aside, AtFlags::SYMLINK_NOFOLLOW)?;
            let mode = Mode::from_raw_mode(like.st_mode & 0o777);
            let file = open_at(directory.as_fd(), Path::new(name), flags, mode, Resolve::NoLinks)?;
            let mut file = File::from(file);
            let written = file.write_all(bytes).and_then(|()| file.sync_all());
            written.map_err(|_| rustix::io::Errno::IO)?;
            Ok(Remedy::Restored)
        }
        Some(Content::Link(target)) => {
            rustix::fs::symlinkat(target, &directory, name)?;
            Ok(Remedy::Restored)
        }
        Some(Content::Other) | None => Ok(Remedy::Renamed(aside)),
    }
}

fn read(mounted: &Mounted, path: &Path) -> Option<Content> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let root = mounted.directory();
    let parent = path.parent().unwrap_or_else(|| Path::new(""));
    let directory =
        open_at(root, parent, OFlags::PATH | OFlags::DIRECTORY, Mode::empty(), Resolve::NoLinks);
    let (directory, name) = (directory.ok()?, path.file_name()?);
    let found =
        rustix::fs::openat(&directory, name, flags | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&found).ok()?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(&found, "", Vec::new()).ok()?;
            Some(Content::Link(PathBuf::from(OsStr::from_bytes(target.as_bytes()))))
        }
        FileType::RegularFile => {
            let file = open_at(
                directory.as_fd(),
                Path::new(name),
                OFlags::RDONLY,
                Mode::empty(),
                Resolve::NoLinks,
            );
            let mut bytes = Vec::new();
            let read = File::from(file.ok()?).take(LARGEST + 1).read_to_end(&mut bytes);
            Some(match read {
                Ok(count) if count as u64 <= LARGEST => Content::Bytes(bytes),
                _ => Content::Other,
            })
        }
        _ => Some(Content::Other),
    }
}

/// Everything below a root that git would heed.
fn heeded(mounted: &Mounted, mounts: &Mounts) -> Vec<HeededPath> {
    let mut walk = Walk { mounted, private: mounts.private().identities(), found: Vec::new() };
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
}

struct Walk<'a> {
    mounted: &'a Mounted,
    private: Vec<Identity>,
    found: Vec<HeededPath>,
}

type Entries = BTreeMap<OsString, FileType>;

impl Walk<'_> {
    fn open(&self, path: &Path) -> Option<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let root = self.mounted.directory();
        let opened = open_at(root, path, flags, Mode::empty(), Resolve::NoLinks).ok()?;
        let identity = identity_of(&rustix::fs::fstat(&opened).ok()?);
        (!self.private.contains(&identity)).then_some(opened)
    }

    fn entries(&self, path: &Path) -> Option<Entries> {
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
        if expect == Expect::Repository || looks_like_repository(entries) {
            self.repository(path, entries);
        }
        for (name, kind) in entries {
            let is_git = name.eq_ignore_ascii_case(".git");
            match kind {
                FileType::Directory if is_git => left.push((path.join(name), Expect::Repository)),
                FileType::Directory => left.push((path.join(name), Expect::Anything)),
                _ if is_git => self.heed(path.join(name), Role::GitFile),
                _ => {}
            }
        }
    }

    /// Notes what git heeds in the directory of a repository.
    fn repository(&mut self, path: &Path, entries: &Entries) {
        let is_module = path.iter().any(|name| name == "modules");
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
        // A link in place of one of these would hide what is behind it from this look.
        for name in ["info", "modules", "objects", "worktrees"] {
            if entries.get(OsStr::new(name)) == Some(&FileType::Symlink) {
                self.heed(path.join(name), Role::Followed);
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
