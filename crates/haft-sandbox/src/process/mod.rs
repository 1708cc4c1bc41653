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
use crate::memory_group::Group;
use crate::mounts::{Access, Mounted};
use crate::policy::{GATEWAY_PORT, Limits, MemoryLimit, Network, Policy, Serving, Writes};
use crate::virtual_path::VirtualPath;
use crate::wire;
use running::Slot;
use rustix::fs::MemfdFlags;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Seek as _, Write as _};
use std::net::TcpListener;
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
    gateway: Option<Working>,
}

/// A gateway at work.
struct Working {
    _serving: Serving,
}

impl fmt::Debug for Working {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Working").finish_non_exhaustive()
    }
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
        let guard = guard(policy)?;
        let owners = launcher.owners(owner(policy)?).map_err(|why| SandboxError::Layer { why })?;
        let group = match policy.memory_limit {
            MemoryLimit::Group => Launcher::group(policy.memory_bytes).map(Arc::new),
            MemoryLimit::Looking => Err("the policy wants no control group".to_owned()),
        };
        let setup = setup(policy, group.as_ref().err().cloned())?;
        let group = group.ok();
        let mut command = launcher.command();
        command.arg(policy.network.kind().word());
        command.args(group.iter().flat_map(|group| group.entrances()));
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        let mut launcher = command.spawn()?;
        // The command holds the other end of the socket open until it is dropped.
        drop(command);
        if let Some(owners) = owners {
            // A launcher that is gone is noticed below.
            wire::send(&ours, &0_u64, &[owners.as_fd()]).ok();
        }
        let begun = begin(&ours, &setup).and_then(|(layers, listener)| {
            let gateway = open_gateway(&policy.network, listener)?;
            Ok((layers, gateway))
        });
        match begun {
            Ok((layers, gateway)) => {
                Ok(Self { link: Link::start(ours, group, guard)?, layers, launcher, gateway })
            }
            Err(error) => {
                drop(ours);
                launcher.kill().and_then(|()| launcher.wait()).ok();
                group.iter().for_each(|group| group.remove());
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

    /// Starts a command that reads and writes these files itself: standard input, output and error. Nothing
    /// of what it says is seen here.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run_attached(
        &self,
        command: Command,
        [stdin, stdout, stderr]: [OwnedFd; 3],
    ) -> Result<Running, SandboxError> {
        self.begin(command, [stdin, stdout, stderr], &[], [None, None])
    }

    /// Starts a command that reads this file and finds the others as 3 and up.
    pub(crate) fn start(
        &self,
        command: Command,
        stdin: OwnedFd,
        files: &[BorrowedFd<'_>],
    ) -> Result<Running, SandboxError> {
        let ((out, their_out), (err, their_err)) = (pipe()?, pipe()?);
        self.begin(command, [stdin, their_out, their_err], files, [Some(out), Some(err)])
    }

    /// Starts a command with these standard files, and listens on these.
    fn begin(
        &self,
        command: Command,
        standard: [OwnedFd; 3],
        files: &[BorrowedFd<'_>],
        streams: [Option<OwnedFd>; 2],
    ) -> Result<Running, SandboxError> {
        let limits = command.limits;
        let run = Run {
            id: self.link.next.fetch_add(1, Ordering::Relaxed),
            argv: command.argv,
            cwd: inside(&command.cwd),
            env: self.environment(&command.variables),
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
        let slot = Slot::new(run.id, command.keep, command.sink)?;
        self.link.lock().get_or_insert_default().insert(run.id, Arc::clone(&slot));
        let id = run.id;
        let mut beside: Vec<_> = standard.iter().map(|file| file.as_fd()).collect();
        beside.extend_from_slice(files);
        let sent = self.link.send(&ToInit::Run(run), &beside);
        drop(standard);
        let started = sent.and_then(|()| slot.started());
        if let Err(error) = started {
            self.link.forget(id);
            return Err(error);
        }
        Running::mind(slot, Arc::clone(&self.link), limits, streams)
    }
}

impl Sandbox {
    /// The whole environment of a command: where there is a gateway, programs are told of it.
    fn environment(&self, variables: &Variables) -> Vec<(OsString, OsString)> {
        let mut environment = variables.environment();
        if self.gateway.is_some() {
            let proxy = format!("http://127.0.0.1:{GATEWAY_PORT}");
            let own = "localhost,127.0.0.1,::1";
            let proxies = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];
            let lower = ["http_proxy", "https_proxy", "all_proxy"];
            let each = proxies.into_iter().chain(lower).map(|name| (name, proxy.as_str()));
            let more = [("NO_PROXY", own), ("no_proxy", own), ("NODE_USE_ENV_PROXY", "1")];
            environment.extend(each.chain(more).map(|(name, value)| (name.into(), value.into())));
        }
        environment
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
        self.link.group.iter().for_each(|group| group.remove());
    }
}

/// The line to a sandbox's init.
#[derive(Debug)]
pub(crate) struct Link {
    socket: UnixStream,
    sending: Mutex<()>,
    next: AtomicU64,
    /// What counts the memory of the whole sandbox, if anything does.
    group: Option<Arc<Group>>,
    /// The commands that have not ended; `None` once the sandbox has.
    slots: Mutex<Option<BTreeMap<u64, Arc<Slot>>>>,
    /// Watches over what commands write; `None` when they write nothing.
    guard: Option<Arc<Guard>>,
}

impl Link {
    fn start(
        socket: UnixStream,
        group: Option<Arc<Group>>,
        guard: Option<Arc<Guard>>,
    ) -> io::Result<Arc<Self>> {
        let link = Arc::new(Self {
            socket,
            sending: Mutex::new(()),
            next: AtomicU64::new(1),
            group,
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
                    let exit = self.explained(Exit::of(code, signal));
                    self.tell(id, |slot| slot.ended(exit));
                    self.forget(id);
                }
                FromInit::Ready(_) | FromInit::Failed(_) => break,
            }
        }
        let exit = self.explained(Exit::Lost);
        for slot in self.lock().take().unwrap_or_default().into_values() {
            slot.ended(exit);
        }
    }

    /// What was killed by the kernel may have been killed for want of memory.
    fn explained(&self, exit: Exit) -> Exit {
        let may_be = matches!(exit, Exit::Signalled(9) | Exit::Exited(137) | Exit::Lost);
        if may_be && self.ran_out_of_memory() { Exit::MemoryLimit } else { exit }
    }

    /// Whether a process was killed for want of memory since this was last asked.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        self.group.as_ref().is_some_and(|group| group.ran_out())
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

/// Has the caller's proxy serve the socket that listens inside.
fn open_gateway(
    network: &Network,
    listener: Option<TcpListener>,
) -> Result<Option<Working>, SandboxError> {
    match (network, listener) {
        (Network::Off | Network::Host, _) => Ok(None),
        (Network::Gateway(gateway), Some(listener)) => {
            Ok(Some(Working { _serving: gateway.serve(listener)? }))
        }
        (Network::Gateway(_), None) => {
            let why = "the socket for the gateway did not come".to_owned();
            Err(SandboxError::Layer { why })
        }
    }
}

/// What init says when it is ready: its layers, and the socket for a gateway.
type Ready = (Vec<LayerReport>, Option<TcpListener>);

fn begin(socket: &UnixStream, setup: &Setup) -> Result<Ready, SandboxError> {
    let layer = |why: &str| SandboxError::Layer { why: why.to_owned() };
    // A launcher that is gone says why, or says nothing: both are seen below.
    wire::send(socket, setup, &[]).ok();
    match wire::receive(socket) {
        Ok(Some((FromInit::Ready(layers), mut files))) => {
            Ok((layers, files.pop().map(TcpListener::from)))
        }
        Ok(Some((FromInit::Failed(why), _))) => Err(SandboxError::Layer { why }),
        Ok(None) | Err(_) => Err(layer(NO_LAUNCHER)),
        Ok(Some(_)) => Err(layer("the launcher said something else than expected")),
    }
}

fn setup(policy: &Policy, ungrouped: Option<String>) -> io::Result<Setup> {
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
        network: policy.network.kind(),
        tmp_bytes: policy.tmp_bytes,
        memory_bytes: policy.memory_bytes,
        ungrouped,
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
