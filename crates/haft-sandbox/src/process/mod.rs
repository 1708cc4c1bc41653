//! Sandboxes, and the commands that run in them.

mod output;
mod running;

pub use output::{Keep, Said, Sink, SinkState};
pub use running::{Exit, Finished, Running};

pub(crate) use output::Stream;

use crate::environment::Variables;
use crate::files::{Parents, open_directory};
use crate::git::Guard;
use crate::launcher::{
    FromInit, Launcher, NO_LAUNCHER, PrivateSpec, RootSpec, Run, SANDBOX_USER, Setup, ToInit,
    is_host_root,
};
use crate::layers::LayerReport;
use crate::mounts::{Access, Mounted};
use crate::policy::{Limits, Network, Policy, Writes};
use crate::virtual_path::VirtualPath;
use crate::wire;
use running::Slot;
use rustix::fs::MemfdFlags;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An own world for processes. All of them end when it is dropped.
#[derive(Debug)]
pub struct Sandbox {
    link: Arc<Link>,
    layers: Vec<LayerReport>,
    launcher: Child,
}

/// A command to run.
#[derive(Debug)]
pub struct Command {
    /// The program and its arguments. A name without a slash is looked for among the system's programs.
    pub argv: Vec<OsString>,
    /// Where it starts.
    pub cwd: VirtualPath,
    /// Variables it finds beside the usual ones.
    pub variables: Variables,
    /// What it reads.
    pub stdin: Stdin,
    /// Its limits.
    pub limits: Limits,
    /// How much of what it says stays in memory.
    pub keep: Keep,
    /// Where all that it says goes.
    pub sink: Option<Sink>,
}

/// What a command reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing.
    Empty,
    /// These bytes.
    Bytes(Vec<u8>),
}

/// Why a sandbox could not be opened or a command not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// A layer that is required cannot be had here. Nothing was run.
    #[error("the sandbox cannot be opened: {why}")]
    Layer {
        /// What could not be done.
        why: String,
    },
    /// The command was not started.
    #[error("the command was not started: {why}")]
    Refused {
        /// What could not be done.
        why: String,
    },
    /// The sandbox has ended.
    #[error("the sandbox has ended: open another")]
    Ended,
    /// The system refused something on this side.
    #[error("the sandbox cannot be used: {0}")]
    Io(#[from] io::Error),
}

impl Command {
    /// A command with the limits for looking around, that reads nothing.
    pub fn new(argv: impl IntoIterator<Item = impl Into<OsString>>, cwd: VirtualPath) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            cwd,
            variables: Variables::new(),
            stdin: Stdin::Empty,
            limits: Limits::LOOK,
            keep: Keep::default(),
            sink: None,
        }
    }

    /// A script for bash, with the limits for work.
    pub fn script(script: &str, cwd: VirtualPath) -> Self {
        let argv = ["/bin/bash", "--noprofile", "--norc", "-c", script];
        Self { limits: Limits::WORK, ..Self::new(argv, cwd) }
    }
}

impl Sandbox {
    /// Builds a sandbox.
    ///
    /// # Errors
    /// When a layer cannot be had; then nothing was run.
    pub fn open(launcher: &Launcher, policy: &Policy) -> Result<Self, SandboxError> {
        let (ours, theirs) = UnixStream::pair()?;
        let setup = setup(policy)?;
        let guard = guard(policy)?;
        let network = if policy.network == Network::Off { "off" } else { "host" };
        let owners = launcher.owners(owner(policy)?).map_err(|why| SandboxError::Layer { why })?;
        let mut command = launcher.command();
        command.arg(network).stdin(Stdio::from(OwnedFd::from(theirs)));
        let mut launcher = command.spawn()?;
        // The command holds the other end of the socket open until it is dropped.
        drop(command);
        if let Some(owners) = owners {
            // A launcher that is gone is noticed below.
            wire::send(&ours, &0_u64, &[owners.as_fd()]).ok();
        }
        match begin(&ours, &setup) {
            Ok(layers) => Ok(Self { link: Link::start(ours, guard)?, layers, launcher }),
            Err(error) => {
                drop(ours);
                launcher.kill().and_then(|()| launcher.wait()).ok();
                Err(error)
            }
        }
    }

    /// The layers, and whether each holds.
    pub fn describe(&self) -> &[LayerReport] {
        &self.layers
    }

    /// Starts a command.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run(&self, command: Command) -> Result<Running, SandboxError> {
        let stdin = stdin(&command.stdin)?;
        self.start(command, stdin, &[])
    }

    /// Starts a command that reads this file and finds the others as 3 and up.
    pub(crate) fn start(
        &self,
        command: Command,
        stdin: OwnedFd,
        files: &[BorrowedFd<'_>],
    ) -> Result<Running, SandboxError> {
        let limits = command.limits;
        let run = Run {
            id: self.link.next.fetch_add(1, Ordering::Relaxed),
            argv: command.argv,
            cwd: inside(&command.cwd),
            env: command.variables.environment(),
            limits: [
                limits.cpu.as_secs().max(1),
                limits.memory_bytes,
                limits.processes,
                limits.file_bytes,
                limits.open_files,
            ],
        };
        if run.argv.iter().any(|arg| arg.as_encoded_bytes().contains(&0)) {
            return Err(SandboxError::Refused {
                why: "an argument has a NUL byte in it".to_owned(),
            });
        }
        let ((out, their_out), (err, their_err)) = (pipe()?, pipe()?);
        let slot = Slot::new(run.id, command.keep, command.sink)?;
        self.link.lock().get_or_insert_default().insert(run.id, Arc::clone(&slot));
        let id = run.id;
        let mut beside = vec![stdin.as_fd(), their_out.as_fd(), their_err.as_fd()];
        beside.extend_from_slice(files);
        let sent = self.link.send(&ToInit::Run(run), &beside);
        drop((stdin, their_out, their_err));
        let started = sent.and_then(|()| slot.started());
        if let Err(error) = started {
            self.link.forget(id);
            return Err(error);
        }
        Running::mind(slot, Arc::clone(&self.link), limits, [out, err])
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // Init leaves when nobody is at the other end, and every process of the sandbox with it.
        self.link.socket.shutdown(std::net::Shutdown::Both).ok();
        self.launcher.wait().ok();
        if let Some(guard) = &self.link.guard {
            guard.close();
        }
    }
}

/// The line to a sandbox's init.
#[derive(Debug)]
pub(crate) struct Link {
    socket: UnixStream,
    sending: Mutex<()>,
    next: AtomicU64,
    /// The commands that have not ended; `None` once the sandbox has.
    slots: Mutex<Option<BTreeMap<u64, Arc<Slot>>>>,
    /// Watches over what commands write; `None` when they write nothing.
    guard: Option<Arc<Guard>>,
}

impl Link {
    fn start(socket: UnixStream, guard: Option<Arc<Guard>>) -> io::Result<Arc<Self>> {
        let link = Arc::new(Self {
            socket,
            sending: Mutex::new(()),
            next: AtomicU64::new(1),
            slots: Mutex::new(Some(BTreeMap::new())),
            guard,
        });
        let listening = Arc::clone(&link);
        std::thread::Builder::new().name("sandbox".to_owned()).spawn(move || listening.listen())?;
        Ok(link)
    }

    pub(crate) fn send(&self, what: &ToInit, files: &[BorrowedFd<'_>]) -> Result<(), SandboxError> {
        let _whole_frames = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        wire::send(&self.socket, what, files).map_err(|_| SandboxError::Ended)
    }

    fn listen(&self) {
        while let Ok(Some((said, _))) = wire::receive::<FromInit>(&self.socket) {
            match said {
                FromInit::Started(id) => self.tell(id, |slot| slot.begun(Ok(()))),
                FromInit::Refused(id, why) => self.tell(id, |slot| slot.begun(Err(why))),
                FromInit::Ended(id, code, signal) => {
                    self.tell(id, |slot| slot.ended(Exit::of(code, signal)));
                    self.forget(id);
                }
                FromInit::Ready(_) | FromInit::Failed(_) => break,
            }
        }
        for slot in self.lock().take().unwrap_or_default().into_values() {
            slot.ended(Exit::Lost);
        }
    }

    fn tell(&self, id: u64, what: impl FnOnce(&Slot)) {
        let slot = self.lock().as_ref().and_then(|slots| slots.get(&id).cloned());
        if let Some(slot) = slot {
            what(&slot);
        }
    }

    fn forget(&self, id: u64) {
        if let Some(slots) = self.lock().as_mut() {
            slots.remove(&id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<BTreeMap<u64, Arc<Slot>>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes note of what git heeds in the roots before anything can write there.
fn guard(policy: &Policy) -> io::Result<Option<Arc<Guard>>> {
    let writes = policy.writes == Writes::AsMounted
        && policy.mounts.roots().any(|root| root.access == Access::ReadWrite);
    writes.then(|| Guard::start(&policy.mounts)).transpose()
}

fn begin(socket: &UnixStream, setup: &Setup) -> Result<Vec<LayerReport>, SandboxError> {
    let layer = |why: &str| SandboxError::Layer { why: why.to_owned() };
    // A launcher that is gone says why, or says nothing: both are seen below.
    wire::send(socket, setup, &[]).ok();
    match wire::receive(socket) {
        Ok(Some((FromInit::Ready(layers), _))) => Ok(layers),
        Ok(Some((FromInit::Failed(why), _))) => Err(SandboxError::Layer { why }),
        Ok(None) | Err(_) => Err(layer(NO_LAUNCHER)),
        Ok(Some(_)) => Err(layer("the launcher said something else than expected")),
    }
}

fn setup(policy: &Policy) -> io::Result<Setup> {
    let root = |mounted: &Mounted| {
        let writable =
            mounted.root.access == Access::ReadWrite && policy.writes == Writes::AsMounted;
        Ok(RootSpec {
            at: inside(&mounted.root.at),
            host: std::path::absolute(&mounted.root.host)?,
            identity: mounted.identity,
            writable,
        })
    };
    policy.mounts.mounted().try_for_each(|outer| make_mount_points(outer, policy))?;
    let roots: io::Result<_> = policy.mounts.mounted().map(root).collect();
    let private = policy.mounts.private().present()?.into_iter();
    let private = private.map(|place| PrivateSpec {
        host: place.path,
        identity: place.identity,
        is_directory: place.is_directory,
    });
    Ok(Setup {
        roots: roots?,
        private: private.collect(),
        network: policy.network,
        tmp_bytes: policy.tmp_bytes,
        landlock: policy.landlock,
    })
}

/// A root inside another needs a directory there to be mounted on.
fn make_mount_points(outer: &Mounted, policy: &Policy) -> io::Result<()> {
    let at = &outer.root.at;
    let inner = policy.mounts.roots().filter(|inner| inner.at != *at && inner.at.starts_with(at));
    for inner in inner {
        open_directory(outer.directory(), &inner.at.below(at.depth()), Parents::Create)?;
    }
    Ok(())
}

/// Whom the roots belong to: what is written in them shall too.
fn owner(policy: &Policy) -> io::Result<(u32, u32)> {
    let writable = policy.mounts.mounted().find(|mounted| mounted.root.access == Access::ReadWrite);
    match writable.or_else(|| policy.mounts.mounted().next()) {
        None => Ok((0, 0)),
        Some(mounted) => {
            let found = rustix::fs::fstat(mounted.directory())?;
            Ok((found.st_uid, found.st_gid))
        }
    }
}

/// Where a virtual path lies inside a sandbox: at the same place.
fn inside(path: &VirtualPath) -> PathBuf {
    PathBuf::from("/").join(path.below(0))
}

/// A pipe between a caller and a command.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    give_to_commands(write.as_fd())?;
    Ok((read, write))
}

/// Lets commands open `/dev/stdout` and its like, which they can only if it belongs to their user.
fn give_to_commands(file: BorrowedFd<'_>) -> io::Result<()> {
    if is_host_root() {
        let (user, group) =
            (rustix::fs::Uid::from_raw(SANDBOX_USER), rustix::fs::Gid::from_raw(SANDBOX_USER));
        rustix::fs::fchown(file, Some(user), Some(group))?;
    }
    Ok(())
}

fn stdin(stdin: &Stdin) -> io::Result<OwnedFd> {
    match stdin {
        Stdin::Empty => Ok(std::fs::File::open("/dev/null")?.into()),
        Stdin::Bytes(bytes) => {
            let mut file =
                std::fs::File::from(rustix::fs::memfd_create("stdin", MemfdFlags::CLOEXEC)?);
            file.write_all(bytes)?;
            file.rewind()?;
            give_to_commands(file.as_fd())?;
            Ok(file.into())
        }
    }
}
