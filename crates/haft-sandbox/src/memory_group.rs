//! A control group for each sandbox: a limit on the memory and the processes of all of it together.
//!
//! Only there is memory counted that no process has mapped, such as that of memfds. A group can be made
//! where this process may make groups below its own: as root, or where systemd has delegated it
//! (`Delegate=yes`). Version 2 is used where it has the memory controller, else version 1.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What the groups of sandboxes are called, before the process and a number.
const PREFIX: &str = "haft-sandbox-";
/// The group that this process moves to, because one with processes of its own cannot limit groups below.
const OWN: &str = "haft";
/// A bound on processes and threads beside the one that each user has.
const PROCESSES: &str = "512";
/// How long a group is left alone that nobody seems to use.
const FRESH: Duration = Duration::from_secs(60);
/// How often removing a group is tried: its last process may not be gone for good yet.
const REMOVE_TRIES: u32 = 200;

/// Where groups are made.
#[derive(Debug)]
pub(crate) struct Groups {
    memory: PathBuf,
    version: Version,
    /// Where processes are counted, if that is another hierarchy.
    processes: Option<PathBuf>,
    next: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The group of one sandbox.
#[derive(Debug)]
pub(crate) struct Group {
    directories: Vec<PathBuf>,
    events: PathBuf,
    /// How many of its processes were known to be killed for want of memory.
    seen: AtomicU64,
}

impl Groups {
    /// Finds where this process may make groups that limit memory.
    ///
    /// # Errors
    /// Says why there is no such place.
    pub(crate) fn find() -> Result<Self, String> {
        let read =
            |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        let (own, mounts) = (read("/proc/self/cgroup")?, read("/proc/self/mountinfo")?);
        let next = AtomicU64::new(0);
        if let Some(directory) = unified(&own, &mounts) {
            prepare(&directory)?;
            sweep(&directory);
            return Ok(Self { memory: directory, version: Version::Two, processes: None, next });
        }
        let memory = legacy(&own, &mounts, "memory")
            .ok_or("no control group of this process has the memory controller")?;
        sweep(&memory);
        let processes = legacy(&own, &mounts, "pids");
        Ok(Self { memory, version: Version::One, processes, next })
    }

    /// Makes a group that holds at most this much memory.
    ///
    /// # Errors
    /// Says what could not be done; then there is no group.
    pub(crate) fn make(&self, memory_bytes: u64) -> Result<Group, String> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let directory = self.memory.join(&name);
        make(&directory)?;
        let events = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let mut group = Group {
            events: directory.join(events),
            directories: vec![directory.clone()],
            seen: AtomicU64::new(0),
        };
        let limited = self.limit(&directory, memory_bytes);
        if let Err(why) = limited {
            group.remove();
            return Err(why);
        }
        if let Some(processes) = &self.processes {
            let directory = processes.join(&name);
            // Each user has a limit of its own, so that this one may be missing.
            if make(&directory).is_ok() {
                set(&directory, "pids.max", PROCESSES).ok();
                group.directories.push(directory);
            }
        }
        Ok(group)
    }

    fn limit(&self, directory: &Path, memory_bytes: u64) -> Result<(), String> {
        let bytes = memory_bytes.to_string();
        match self.version {
            Version::One => {
                set(directory, "memory.limit_in_bytes", &bytes)?;
                // Without swap accounting there is no such file.
                set(directory, "memory.memsw.limit_in_bytes", &bytes).ok();
            }
            Version::Two => {
                set(directory, "memory.max", &bytes)?;
                set(directory, "memory.swap.max", "0").ok();
                set(directory, "pids.max", PROCESSES).ok();
            }
        }
        Ok(())
    }
}

impl Group {
    /// The files in which a process enters the group.
    pub(crate) fn entrances(&self) -> impl Iterator<Item = PathBuf> {
        self.directories.iter().map(|directory| directory.join("cgroup.procs"))
    }

    /// Whether a process was killed for want of memory since this was last asked.
    pub(crate) fn ran_out(&self) -> bool {
        let events = fs::read_to_string(&self.events).unwrap_or_default();
        let killed = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        let killed = killed.and_then(|count| count.trim().parse().ok()).unwrap_or(0);
        self.seen.fetch_max(killed, Ordering::Relaxed) < killed
    }

    /// Removes the group once its processes are gone; killed ones take a moment.
    pub(crate) fn remove(&self) {
        for directory in &self.directories {
            for _ in 0..REMOVE_TRIES {
                match fs::remove_dir(directory) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    // What cannot be removed is swept up by the next process that makes groups.
                    _ => break,
                }
            }
        }
    }
}

/// The directory of this process's group in the hierarchy of version 2, if that limits memory.
fn unified(own: &str, mounts: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let directory = mounted(mounts, path, |kind, _| kind == "cgroup2")?;
    let controllers = fs::read_to_string(directory.join("cgroup.controllers")).ok()?;
    controllers.split_whitespace().any(|name| name == "memory").then_some(directory)
}

/// The directory of this process's group in a hierarchy of version 1.
fn legacy(own: &str, mounts: &str, controller: &str) -> Option<PathBuf> {
    let has = |names: &str| names.split(',').any(|name| name == controller);
    let path = own.lines().find_map(|line| {
        let (names, path) = line.split_once(':')?.1.split_once(':')?;
        has(names).then_some(path)
    })?;
    mounted(mounts, path, |kind, options| kind == "cgroup" && has(options))
}

/// Where a path of a hierarchy is mounted.
fn mounted(mounts: &str, path: &str, is_meant: impl Fn(&str, &str) -> bool) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        let mut before = before.split(' ').skip(3);
        let (root, place) = (before.next()?, before.next()?);
        let below = path.strip_prefix(root.trim_end_matches('/'))?;
        is_meant(kind, options).then(|| Path::new(place).join(below.trim_start_matches('/')))
    })
}

/// Has groups below this one limit memory. One with processes cannot, so this process moves aside.
fn prepare(directory: &Path) -> Result<(), String> {
    let control = "cgroup.subtree_control";
    let enabled = fs::read_to_string(directory.join(control)).unwrap_or_default();
    if enabled.split_whitespace().any(|name| name == "memory") || enable(directory).is_ok() {
        return Ok(());
    }
    let aside = directory.join(OWN);
    let this = std::process::id().to_string();
    make(&aside)?;
    let moved = set(&aside, "cgroup.procs", &this).and_then(|()| enable(directory));
    moved.inspect_err(|_| {
        // Back to where it was; it is limited nowhere else.
        set(directory, "cgroup.procs", &this)
            .and_then(|()| fs::remove_dir(&aside).map_err(|error| error.to_string()))
            .ok();
    })
}

fn enable(directory: &Path) -> Result<(), String> {
    set(directory, "cgroup.subtree_control", "+memory")?;
    // Each user has a limit on processes of its own.
    set(directory, "cgroup.subtree_control", "+pids").ok();
    Ok(())
}

fn make(directory: &Path) -> Result<(), String> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(format!("no control group can be made in {}: {error}", directory.display()))
        }
        _ => Ok(()),
    }
}

fn set(directory: &Path, file: &str, value: &str) -> Result<(), String> {
    let path = directory.join(file);
    fs::write(&path, value).map_err(|error| format!("{} cannot be set: {error}", path.display()))
}

/// Removes groups whose makers ended without doing so. One in use cannot be removed; one that was just
/// made may not be in use yet.
fn sweep(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
        let Some((maker, _)) = maker else { continue };
        let made = entry.metadata().and_then(|found| found.modified()).ok();
        let is_old = made.and_then(|made| made.elapsed().ok()).is_some_and(|age| age > FRESH);
        if is_old && !Path::new("/proc").join(maker).exists() {
            fs::remove_dir(entry.path()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
30 23 0:26 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw
31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
32 23 0:28 /docker/abc /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
";

    #[test]
    fn the_own_group_is_found_where_its_hierarchy_is_mounted() {
        let own = "4:memory:/a/b\n3:pids:/docker/abc/c\n0::/x\n";
        let found = |controller| legacy(own, MOUNTS, controller);
        assert_eq!(found("memory"), Some("/sys/fs/cgroup/memory/a/b".into()));
        assert_eq!(found("pids"), Some("/sys/fs/cgroup/pids/c".into()));
        assert_eq!(found("cpu"), None);
        let v2 = mounted(MOUNTS, "/x", |kind, _| kind == "cgroup2");
        assert_eq!(v2, Some("/sys/fs/cgroup/unified/x".into()));
    }
}
