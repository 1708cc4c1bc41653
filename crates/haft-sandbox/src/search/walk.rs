//! Walking a tree beneath its root, by several threads.

use super::ignores::{FILES, Rules};
use super::queue::Queue;
use crate::files::{FileError, Files, Kind, Resolve, open_at};
use crate::private::{Identity, identity_of};
use crate::virtual_path::VirtualPath;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What to do about names that begin with a dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// Pass them over.
    Skip,
    /// Take them like others.
    Include,
}

/// What to do about `.gitignore` and `.ignore` files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignores {
    /// Pass over what they name.
    Respect,
    /// Take no notice of them.
    Disregard,
}

/// How far a search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How many results are given.
    pub results: usize,
    /// How many entries are looked at.
    pub entries: usize,
    /// How long it may take.
    pub time: Duration,
}

/// How far a search went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walked {
    /// How many entries it looked at.
    pub entries: usize,
    /// Whether all there was, within the rules, was looked at.
    pub complete: bool,
}

/// Files of one directory that are worked on together; more are shared among the threads.
const BATCH: usize = 64;

pub(super) struct Walk {
    /// Where it starts.
    start: OwnedFd,
    start_path: VirtualPath,
    /// The path of the start from its root, with a leading slash.
    inside: PathBuf,
    hidden: Hidden,
    ignores: Ignores,
    /// What is neither entered nor opened.
    private: Vec<Identity>,
    bounds: Bounds,
    deadline: Instant,
    looked_at: AtomicUsize,
    cut: AtomicBool,
}

/// An entry that was found.
pub(super) struct Found<'a> {
    pub(super) walk: &'a Walk,
    directory: &'a Directory,
    pub(super) name: &'a OsStr,
    pub(super) kind: Kind,
}

enum Work {
    Directory(Directory),
    Files(Arc<Directory>, Vec<(OsString, Kind)>),
}

struct Directory {
    /// Its path from the start.
    relative: PathBuf,
    rules: Option<Arc<Rules>>,
}

impl Walk {
    pub(super) fn open(
        files: &Files,
        path: &VirtualPath,
        hidden: Hidden,
        ignores: Ignores,
        bounds: Bounds,
    ) -> Result<(Self, Option<Arc<Rules>>), FileError> {
        let located = files.locate(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let start = files.open_beneath(&located, flags, path)?;
        let rules = match ignores {
            Ignores::Respect => rules_above(located.mounted.directory(), &located.relative),
            Ignores::Disregard => None,
        };
        let walk = Self {
            start,
            start_path: path.clone(),
            inside: Path::new("/").join(&located.relative),
            hidden,
            ignores,
            private: files.mounts().private().identities(),
            bounds,
            deadline: Instant::now() + bounds.time,
            looked_at: AtomicUsize::new(0),
            cut: AtomicBool::new(false),
        };
        Ok((walk, rules))
    }

    /// Visits every entry, on several threads, each with a visitor of its own.
    pub(super) fn run<V: FnMut(&Found<'_>) + Send>(
        &self,
        rules: Option<Arc<Rules>>,
        visitor: impl Fn() -> V + Sync,
    ) -> Walked {
        let queue = Queue::new(Work::Directory(Directory { relative: PathBuf::new(), rules }));
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
        let work = || {
            let mut visit = visitor();
            queue.drain(|work, more| {
                if self.over() {
                    queue.stop();
                } else {
                    self.step(work, more, &mut visit);
                }
            });
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
        Walked {
            entries: self.looked_at.load(Ordering::Relaxed),
            complete: !self.cut.load(Ordering::Relaxed),
        }
    }

    /// Whether a bound is reached. Also asked by visitors that take long.
    pub(super) fn over(&self) -> bool {
        let over = self.looked_at.load(Ordering::Relaxed) > self.bounds.entries
            || Instant::now() > self.deadline;
        if over {
            self.cut.store(true, Ordering::Relaxed);
        }
        over
    }

    fn step(&self, work: Work, more: &mut Vec<Work>, visit: &mut impl FnMut(&Found<'_>)) {
        match work {
            Work::Files(directory, entries) => self.visit_all(&directory, &entries, visit),
            // A directory that is gone, unreadable or became a link is passed over.
            Work::Directory(directory) => {
                if let Some((directory, entries)) = self.enter(directory, more) {
                    let directory = Arc::new(directory);
                    let mut batches = entries.chunks(BATCH);
                    let first = batches.next().unwrap_or_default();
                    more.extend(
                        batches.map(|batch| Work::Files(Arc::clone(&directory), batch.to_vec())),
                    );
                    self.visit_all(&directory, first, visit);
                }
            }
        }
    }

    /// Reads a directory: what it holds, with the directories among it put to the work.
    fn enter(
        &self,
        mut directory: Directory,
        more: &mut Vec<Work>,
    ) -> Option<(Directory, Vec<(OsString, Kind)>)> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let opened = open_at(
            self.start.as_fd(),
            &directory.relative,
            flags,
            Mode::empty(),
            Resolve::NoLinks,
        )
        .ok()?;
        if self.is_private(opened.as_fd()) {
            return None;
        }
        let (mut entries, has_rules) = read_entries(opened)?;
        self.looked_at.fetch_add(entries.len(), Ordering::Relaxed);
        let mut path = self.inside.join(&directory.relative);
        if has_rules && self.ignores == Ignores::Respect {
            let above = directory.rules.take();
            directory.rules = Rules::read(above, self.start.as_fd(), &directory.relative, &path);
        }
        entries.retain(|(name, kind)| {
            path.push(name);
            let taken = self.takes(&directory, name, &path, *kind);
            path.pop();
            taken
        });
        for (name, _) in entries.iter().filter(|(_, kind)| *kind == Kind::Directory) {
            let relative = directory.relative.join(name);
            more.push(Work::Directory(Directory { relative, rules: directory.rules.clone() }));
        }
        Some((directory, entries))
    }

    fn is_private(&self, file: BorrowedFd<'_>) -> bool {
        let found = || rustix::fs::fstat(file).map(|found| identity_of(&found));
        !self.private.is_empty() && !found().is_ok_and(|found| !self.private.contains(&found))
    }

    fn takes(&self, directory: &Directory, name: &OsStr, path: &Path, kind: Kind) -> bool {
        if self.hidden == Hidden::Skip && name.as_bytes().starts_with(b".") {
            return false;
        }
        match &directory.rules {
            Some(rules) => !rules.ignore(path, kind == Kind::Directory),
            None => true,
        }
    }

    fn visit_all(
        &self,
        directory: &Directory,
        entries: &[(OsString, Kind)],
        visit: &mut impl FnMut(&Found<'_>),
    ) {
        for (name, kind) in entries {
            visit(&Found { walk: self, directory, name, kind: *kind });
        }
    }
}

impl Found<'_> {
    /// Its path from the start of the walk.
    pub(super) fn relative(&self) -> PathBuf {
        self.directory.relative.join(self.name)
    }

    pub(super) fn path(&self) -> VirtualPath {
        self.walk.start_path.join(self.relative().as_os_str())
    }

    /// Opens it, if it is still a regular file.
    pub(super) fn open(&self) -> Option<OwnedFd> {
        let start = self.walk.start.as_fd();
        let file =
            open_at(start, &self.relative(), OFlags::RDONLY, Mode::empty(), Resolve::NoLinks)
                .ok()?;
        let found = rustix::fs::fstat(&file).ok()?;
        let is_private = self.walk.private.contains(&identity_of(&found));
        let is_regular = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        (is_regular && !is_private).then_some(file)
    }
}

/// The rules that the directories above the start set.
fn rules_above(root: BorrowedFd<'_>, start: &Path) -> Option<Arc<Rules>> {
    let mut above: Vec<&Path> = start.ancestors().skip(1).collect();
    above.reverse();
    above.into_iter().fold(None, |rules, directory| {
        Rules::read(rules, root, directory, &Path::new("/").join(directory))
    })
}

/// A directory's entries, and whether an ignore file is among them.
fn read_entries(directory: OwnedFd) -> Option<(Vec<(OsString, Kind)>, bool)> {
    let mut entries = Vec::new();
    let mut has_rules = false;
    let mut reader = Dir::new(directory).ok()?;
    while let Some(entry) = reader.read() {
        let entry = entry.ok()?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        has_rules |= FILES.iter().any(|file| file.as_bytes() == name);
        let mut kind = entry.file_type();
        if kind == FileType::Unknown {
            let stat =
                rustix::fs::statat(reader.fd().ok()?, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
            kind = stat.map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode));
        }
        entries.push((OsStr::from_bytes(name).to_owned(), Kind::of(kind)));
    }
    Some((entries, has_rules))
}
