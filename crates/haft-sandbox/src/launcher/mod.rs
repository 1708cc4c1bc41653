//! The stages through which a process is confined, each a fresh program.
//!
//! ```text
//! caller ──spawn──▶ launch ──spawn──▶ init (pid 1) ──spawn──▶ exec ──▶ the command
//!                   leaves its        builds the tree,        limits, Landlock, seccomp
//!                   namespaces        drops all rights
//! ```
//!
//! Every stage is the program itself, started again under another name, so that nothing has to be
//! installed and nothing is ever done between `fork` and `exec` of a process with threads.

mod exec;
mod hide;
mod init;
mod landlock;
mod launch;
mod memory;
mod messages;
mod owners;
mod seccomp;
mod tree;

pub(crate) use messages::{FromInit, OUT_OF_MEMORY, PrivateSpec, RootSpec, Run, Setup, ToInit};

use crate::memory_group::{Group, Groups};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// The program that is started for the first stage; its `main` calls [`main_if_asked`] first.
#[derive(Clone, Debug)]
pub struct Launcher {
    program: PathBuf,
    /// Maps of owners by whom the roots belong to: made once, used by every sandbox.
    owners: Arc<Mutex<Owners>>,
}

type Owners = BTreeMap<(u32, u32), Arc<OwnedFd>>;

/// Where this process may make control groups, or why nowhere. Looked for once: to make them it may have
/// to move to another group itself.
static GROUPS: LazyLock<Result<Groups, String>> = LazyLock::new(Groups::find);

impl Launcher {
    /// This program itself.
    pub fn this_program() -> Self {
        Self::program(SELF)
    }

    /// Another program.
    pub fn program(path: impl Into<PathBuf>) -> Self {
        Self { program: path.into(), owners: Arc::default() }
    }

    /// A control group for a sandbox, or why there is none.
    pub(crate) fn group(memory_bytes: u64) -> Result<Group, String> {
        GROUPS.as_ref().map_err(Clone::clone)?.make(memory_bytes)
    }

    pub(crate) fn command(&self) -> Command {
        Stage::Launch.command(&self.program)
    }

    /// The map by which what belongs to `owner` belongs to the sandbox's user inside. Only root needs one.
    pub(crate) fn owners(&self, owner: (u32, u32)) -> Result<Option<Arc<OwnedFd>>, String> {
        if !is_host_root() {
            return Ok(None);
        }
        let mut known = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(map) = known.get(&owner) {
            return Ok(Some(Arc::clone(map)));
        }
        let map = Arc::new(owners::map(&self.program, owner)?);
        known.insert(owner, Arc::clone(&map));
        Ok(Some(map))
    }
}

/// The user that commands run as when the caller is root.
pub(crate) const SANDBOX_USER: u32 = 64_242;

const SELF: &str = "/proc/self/exe";

/// Becomes a stage of a sandbox if this process was started as one, and then never returns.
///
/// To be called first in `main`, before any thread is started.
pub fn main_if_asked() {
    let mut args = std::env::args_os();
    let Some(stage) = args.next().and_then(|name| Stage::named(name.to_str()?)) else { return };
    let args: Vec<_> = args.collect();
    match stage {
        Stage::Launch => launch::run(&args),
        Stage::Owners => owners::run(),
        Stage::Init => init::run(&args),
        Stage::Exec => exec::run(args),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Launch,
    Owners,
    Init,
    Exec,
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Self::Launch => "haft-sandbox: launch",
            Self::Owners => "haft-sandbox: owners",
            Self::Init => "haft-sandbox: init",
            Self::Exec => "haft-sandbox: exec",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::Launch, Self::Owners, Self::Init, Self::Exec]
            .into_iter()
            .find(|stage| stage.name() == name)
    }

    /// A command that becomes this stage; it inherits no environment and no open file.
    fn command(self, program: &Path) -> Command {
        let mut command = Command::new(program);
        std::os::unix::process::CommandExt::arg0(&mut command, self.name());
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

/// Whether this is the host's root, and not one who is called so in a user namespace of somebody else.
pub(crate) fn is_host_root() -> bool {
    let map = || std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    rustix::process::geteuid().is_root() && map().split_whitespace().eq(["0", "0", "4294967295"])
}

/// Ends the process without running anything that belongs to another stage.
#[expect(clippy::exit, reason = "a stage is a whole program; its caller's `main` must not go on")]
fn leave(code: i32) -> ! {
    std::process::exit(code)
}

/// What to say of a program that does not become a stage when asked.
pub(crate) const NO_LAUNCHER: &str =
    "the launcher ended without a word: does its `main` call `main_if_asked` first?";

/// What went wrong in a stage, as a sentence.
type Step<T> = Result<T, String>;

/// Says what was being done when the kernel refused.
trait Doing<T> {
    fn doing(self, what: &str) -> Step<T>;
}

impl<T, E: std::fmt::Display> Doing<T> for Result<T, E> {
    fn doing(self, what: &str) -> Step<T> {
        self.map_err(|error| format!("could not {what}: {error}"))
    }
}
