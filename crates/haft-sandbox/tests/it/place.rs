//! A workspace to try things in, with canaries around it.

use haft_sandbox::files::Files;
use haft_sandbox::mounts::{Access, Mounts, Root};
use haft_sandbox::virtual_path::{PathError, VirtualPath};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What must never be read from outside, and never change.
pub(crate) const CANARY: &str = "CANARY-7f3a outside the roots";

/// `/workspace` (writable) and `/workspace/agent` (read-only), beside a directory nobody mounted.
pub(crate) struct Place {
    temp: TempDir,
    pub(crate) files: Files,
}

impl Place {
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        for directory in ["workspace/sub", "agent", "outside", "workspace-evil"] {
            std::fs::create_dir_all(temp.path().join(directory)).unwrap();
        }
        for file in ["outside/secret", "outside/f", "workspace-evil/secret", "outside.txt"] {
            std::fs::write(temp.path().join(file), CANARY).unwrap();
        }
        std::fs::write(temp.path().join("workspace/a.txt"), "one\ntwo\nthree\n").unwrap();
        std::fs::write(temp.path().join("agent/substrate.md"), "shared\n").unwrap();
        let root = |at: &str, directory: &str, access| Root {
            at: absolute(at),
            host: temp.path().join(directory),
            access,
        };
        let mounts = Mounts::open([
            root("/workspace", "workspace", Access::ReadWrite),
            root("/workspace/agent", "agent", Access::ReadOnly),
        ]);
        Self { files: Files::new(mounts.unwrap()), temp }
    }

    /// Where the workspace lies on the host.
    pub(crate) fn host(&self) -> PathBuf {
        self.temp.path().join("workspace")
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.temp.path().join("outside")
    }

    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.host().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn content(&self, path: &str) -> String {
        std::fs::read_to_string(self.host().join(path)).unwrap()
    }

    /// Fails the test when anything outside the roots has changed.
    pub(crate) fn check_canaries(&self) {
        let mut found = Vec::new();
        list(self.temp.path(), &mut found);
        let mut outside: Vec<_> = found
            .iter()
            .filter(|path| !path.starts_with(self.host()))
            .map(|path| path.strip_prefix(self.temp.path()).unwrap().to_str().unwrap().to_owned())
            .collect();
        outside.sort();
        let expected = [
            "agent/substrate.md",
            "outside.txt",
            "outside/f",
            "outside/secret",
            "workspace-evil/secret",
        ];
        assert_eq!(outside, expected);
        for file in &expected[1..] {
            assert_eq!(std::fs::read_to_string(self.temp.path().join(file)).unwrap(), CANARY);
        }
    }
}

fn list(directory: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() && !path.is_symlink() {
            list(&path, found);
        } else {
            found.push(path);
        }
    }
}

pub(crate) fn absolute(path: &str) -> VirtualPath {
    VirtualPath::parse(path, &VirtualPath::top()).unwrap()
}

pub(crate) fn in_workspace(path: &str) -> Result<VirtualPath, PathError> {
    VirtualPath::parse(path, &absolute("/workspace"))
}

/// A path that the test knows to be well-formed, from the workspace.
pub(crate) fn at(path: &str) -> VirtualPath {
    in_workspace(path).unwrap()
}

/// A program that waits for long, and can be told from all others on this machine.
pub(crate) struct Sleeper(String);

impl Sleeper {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(format!("8{:07}.{number:03}", std::process::id()))
    }

    /// The command that runs it.
    pub(crate) fn command(&self) -> String {
        format!("sleep {}", self.0)
    }

    /// How many of it are alive, as the host sees it.
    pub(crate) fn alive(&self) -> usize {
        let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        let expected = format!("sleep\0{}\0", self.0).into_bytes();
        lines.filter(|line| *line == expected).count()
    }

    /// Waits until so many of it are alive.
    pub(crate) fn until(&self, count: usize) {
        let since = Instant::now();
        while self.alive() != count {
            assert!(since.elapsed() < Duration::from_secs(180), "{} are alive", self.alive());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
