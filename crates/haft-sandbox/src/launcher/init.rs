//! The first process of a sandbox: builds it, then starts and ends commands for as long as its caller lives.

use super::exec::GROUPED;
use super::launch::{OWNERS_FD, map_self};
use super::memory;
use super::messages::{FromInit, OUT_OF_MEMORY, Run, Setup, ToInit};
use super::{Doing as _, SANDBOX_USER, SELF, Stage, Step, landlock, leave, tree};
use crate::layers::{Layer, LayerReport, Standing};
use crate::policy::{GATEWAY_PORT, NetworkKind, Requirement};
use crate::sys;
use crate::wire;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions, WaitStatus};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read as _;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// How often strays are looked for when nothing else happens.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };
/// How often the memory of all processes is looked at, at most.
const LOOK_AT_MEMORY: Duration = Duration::from_millis(200);
/// How long killed processes may take to be gone.
const GONE: Duration = Duration::from_secs(1);
/// The kernel tells when a process was started in hundredths of a second.
const MS_PER_TICK: u64 = 10;
/// How often what starts other processes while it is killed is looked for.
const KILL_ROUNDS: u32 = 8;

/// Arguments: whom commands run as, user and group; then `owners` if a map of owners was left open for us.
pub(super) fn run(args: &[OsString]) -> ! {
    let socket = UnixStream::from(sys::inherited(0));
    let number = |at: usize| args.get(at)?.to_str()?.parse::<u32>().ok();
    let (Some(user), Some(group)) = (number(0), number(1)) else { leave(1) };
    let caller = match args.get(2) {
        Some(_) => Caller::Root { owners: sys::inherited(OWNERS_FD) },
        None => Caller::User { user, group },
    };
    match Init::start(socket, caller) {
        Ok(init) => init.serve(),
        Err(()) => leave(1),
    }
}

/// Who opened the sandbox.
pub(super) enum Caller {
    /// Commands run as a user of their own, to whom the files of the roots seem to belong.
    Root { owners: OwnedFd },
    /// Commands run as that user.
    User { user: u32, group: u32 },
}

impl Caller {
    /// Whom commands run as.
    pub(super) fn inside(&self) -> (u32, u32) {
        match self {
            Self::Root { .. } => (SANDBOX_USER, SANDBOX_USER),
            Self::User { user, group } => (*user, *group),
        }
    }
}

struct Init {
    socket: UnixStream,
    setup: Setup,
    landlock: u64,
    running: BTreeMap<i32, Running>,
    /// When the memory of all processes was last looked at.
    looked: Instant,
    /// Whether what ends now was ended for want of memory.
    is_out_of_memory: bool,
}

/// A sandbox that was built.
struct Built {
    setup: Setup,
    landlock: u64,
    /// Where the caller's proxy is found inside.
    gateway: Option<TcpListener>,
}

struct Running {
    id: u64,
    watch: OwnedFd,
}

impl Init {
    fn start(socket: UnixStream, caller: Caller) -> Result<Self, ()> {
        let built = Self::build(&socket, &caller);
        // The map of owners must not be open in commands.
        drop(caller);
        match built {
            Ok(Built { setup, landlock, gateway }) => {
                let ready = FromInit::Ready(layers(&setup, landlock));
                let beside: Vec<_> = gateway.iter().map(|gateway| gateway.as_fd()).collect();
                wire::send(&socket, &ready, &beside).map_err(drop)?;
                Ok(Self {
                    socket,
                    setup,
                    landlock,
                    running: BTreeMap::new(),
                    looked: Instant::now(),
                    is_out_of_memory: false,
                })
            }
            Err(why) => {
                wire::send(&socket, &FromInit::Failed(why), &[]).ok();
                Err(())
            }
        }
    }

    fn build(socket: &UnixStream, caller: &Caller) -> Step<Built> {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .doing("be tied to the caller")?;
        let received = wire::receive(socket).doing("hear what to build")?;
        let (setup, _): (Setup, _) = received.ok_or("the caller is gone")?;
        rustix::system::sethostname(b"sandbox").doing("name the sandbox")?;
        let gateway = gateway(setup.network)?;
        tree::build(&setup, caller)?;
        give_up_rights(caller)?;
        let landlock = landlock::version(setup.network);
        if landlock == 0 && setup.landlock == Requirement::Required {
            return Err("this kernel has no Landlock, which the policy requires".to_owned());
        }
        Ok(Built { setup, landlock, gateway })
    }

    fn serve(mut self) -> ! {
        loop {
            let called = self.wait_for_something();
            self.reap();
            self.look_at_memory();
            if called {
                match wire::receive(&self.socket) {
                    Ok(Some((ToInit::Run(run), files))) => self.begin(&run, files),
                    Ok(Some((ToInit::Signal(id, signal), _))) => self.signal(id, signal),
                    Ok(Some((ToInit::KillYounger(id, ms), _))) => self.kill_younger(id, ms),
                    // The kernel ends every process of the namespace with its first.
                    Ok(None) | Err(_) => leave(0),
                }
            }
        }
    }

    /// Waits until the caller says something or a command ends; whether it is the caller.
    fn wait_for_something(&self) -> bool {
        let mut fds = vec![PollFd::new(&self.socket, PollFlags::IN)];
        fds.extend(self.running.values().map(|running| PollFd::new(&running.watch, PollFlags::IN)));
        // Woken by a signal or in vain, it is asked again.
        poll(&mut fds, Some(&LOOK)).is_ok()
            && fds.first().is_some_and(|socket| !socket.revents().is_empty())
    }

    fn begin(&mut self, run: &Run, files: Vec<OwnedFd>) {
        let answer = match self.spawn(run, files) {
            Ok((pid, watch)) => {
                self.running.insert(pid.as_raw_nonzero().get(), Running { id: run.id, watch });
                FromInit::Started(run.id)
            }
            Err(why) => FromInit::Refused(run.id, why),
        };
        self.say(&answer);
    }

    fn spawn(&self, run: &Run, files: Vec<OwnedFd>) -> Step<(Pid, OwnedFd)> {
        let mut files = files.into_iter();
        let mut next = || files.next().ok_or("standard input, output and error did not come");
        let (input, output, error) = (next()?, next()?, next()?);
        let extra: Vec<OwnedFd> = files.collect();
        let (told, tells) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).doing("make a pipe")?;
        // This process has one thread, so nothing else can be started while these are left open.
        for file in extra.iter().chain([&tells]) {
            rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty()).doing("pass on a file")?;
        }
        let extra_numbers: Vec<_> = extra.iter().map(|file| file.as_raw_fd().to_string()).collect();
        let mut command = Stage::Exec.command(Path::new(SELF));
        command
            .arg(tells.as_raw_fd().to_string())
            .arg(extra_numbers.join(","))
            .arg(self.landlock.to_string());
        command.arg(self.setup.network.word());
        command.arg(if self.setup.ungrouped.is_none() { GROUPED } else { "ungrouped" });
        command.args(run.limits.map(|limit| limit.to_string()));
        let (writable, readable): (Vec<_>, Vec<_>) =
            self.setup.roots.iter().partition(|root| root.writable);
        for roots in [writable, readable] {
            command.arg(roots.len().to_string()).args(roots.iter().map(|root| &root.at));
        }
        command.args(&run.argv).envs(run.env.iter().map(|(name, value)| (name, value)));
        command
            .current_dir(&run.cwd)
            .stdin(Stdio::from(input))
            .stdout(Stdio::from(output))
            .stderr(Stdio::from(error));
        let child = command.spawn().doing("start the command (is its directory there?)")?;
        let pid = Pid::from_child(&child);
        drop((tells, extra));
        let mut why = String::new();
        std::fs::File::from(told)
            .take(4096)
            .read_to_string(&mut why)
            .doing("hear from the command")?;
        if !why.is_empty() {
            rustix::process::waitpid(Some(pid), WaitOptions::empty()).ok();
            return Err(why);
        }
        let watch =
            rustix::process::pidfd_open(pid, PidfdFlags::empty()).doing("watch the command")?;
        Ok((pid, watch))
    }

    fn signal(&self, id: u64, signal: u32) {
        let Some(signal) = i32::try_from(signal).ok().and_then(Signal::from_named_raw) else {
            return;
        };
        for (pid, _) in self.running.iter().filter(|(_, running)| running.id == id) {
            if let Some(pid) = Pid::from_raw(*pid) {
                // It may just have ended.
                rustix::process::kill_process_group(pid, signal).ok();
            }
        }
    }

    /// Kills what was started within so many milliseconds, but for one command. What starts others
    /// meanwhile is killed with them.
    fn kill_younger(&self, id: u64, ms: u64) {
        let Some(now) = uptime() else { return };
        // The kernel rounds down, so that what is as old as that may look a tick older.
        let first = now.saturating_sub(ms / MS_PER_TICK + 1);
        let is_spared =
            |pid: i32| pid == 1 || self.running.get(&pid).is_some_and(|running| running.id == id);
        for _ in 0..KILL_ROUNDS {
            let younger = started_since(first).into_iter().filter(|pid| !is_spared(*pid));
            let younger: Vec<Pid> = younger.filter_map(Pid::from_raw).collect();
            if younger.is_empty() {
                return;
            }
            for pid in younger {
                // It may just have ended.
                rustix::process::kill_process(pid, Signal::KILL).ok();
            }
        }
    }

    /// Ends everything when it has used up the memory of the sandbox, where no control group does.
    fn look_at_memory(&mut self) {
        if self.setup.ungrouped.is_none()
            || self.running.is_empty()
            || self.looked.elapsed() < LOOK_AT_MEMORY
        {
            return;
        }
        self.looked = Instant::now();
        if memory::of_everyone() > self.setup.memory_bytes {
            self.is_out_of_memory = true;
            self.kill_all();
            self.is_out_of_memory = false;
        }
    }

    /// Kills everything that is left, and waits until it is gone.
    fn kill_all(&mut self) {
        kill_everyone();
        let deadline = Instant::now() + GONE;
        while self.reap() && Instant::now() < deadline {
            kill_everyone();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Takes note of everything that ended; whether any process is left.
    fn reap(&mut self) -> bool {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.ended(pid, status),
                Ok(None) | Err(Errno::INTR) => return true,
                Err(_) => return false,
            }
        }
    }

    fn ended(&mut self, pid: Pid, status: WaitStatus) {
        let Some(Running { id, .. }) = self.running.remove(&pid.as_raw_nonzero().get()) else {
            return;
        };
        // What a command leaves behind ends with it: its group always, all else when it was alone.
        rustix::process::kill_process_group(pid, Signal::KILL).ok();
        if self.running.is_empty() {
            self.kill_all();
        }
        let number = |number: i32| u32::try_from(number).unwrap_or(0);
        let (code, signal) = match self.is_out_of_memory {
            true => (None, Some(OUT_OF_MEMORY)),
            false => (status.exit_status().map(number), status.terminating_signal().map(number)),
        };
        self.say(&FromInit::Ended(id, code, signal));
    }

    fn say(&self, what: &FromInit) {
        // A caller that is gone is noticed at the next turn.
        wire::send(&self.socket, what, &[]).ok();
    }
}

/// Makes the socket that a gateway is found at: on the loopback interface of the sandbox's own network,
/// which has no other.
fn gateway(network: NetworkKind) -> Step<Option<TcpListener>> {
    match network {
        NetworkKind::Off | NetworkKind::Host => Ok(None),
        NetworkKind::Gateway => {
            sys::raise_loopback().doing("raise the loopback interface")?;
            let address = (Ipv4Addr::LOCALHOST, GATEWAY_PORT);
            TcpListener::bind(address).map(Some).doing("listen for the gateway")
        }
    }
}

/// Returns the processes that were started at this time or later, in ticks since the machine was.
fn started_since(first: u64) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| started_at(*pid).is_some_and(|at| at >= first)).collect()
}

/// Returns how long the machine runs, in ticks.
fn uptime() -> Option<u64> {
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    // Seconds with two decimals, which are ticks.
    let seconds = uptime.split_ascii_whitespace().next()?;
    seconds.replace('.', "").parse().ok()
}

/// Returns when a process was started, in ticks since the machine was.
fn started_at(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name stands in brackets and may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let is_gone = fields.next()? == "Z";
    // The 22nd field of the line, of which three have been taken.
    fields.nth(18)?.parse().ok().filter(|_| !is_gone)
}

/// Every process of this namespace but its first: `kill(-1)`.
fn kill_everyone() {
    if let Some(everyone) = Pid::from_raw(1) {
        rustix::process::kill_process_group(everyone, Signal::KILL).ok();
    }
}

/// Becomes a user without any rights, for good.
fn give_up_rights(caller: &Caller) -> Step<()> {
    let outside = match caller {
        Caller::Root { .. } => {
            let user = rustix::fs::Uid::from_raw(SANDBOX_USER);
            let group = rustix::fs::Gid::from_raw(SANDBOX_USER);
            rustix::thread::set_thread_groups(&[]).doing("leave all groups")?;
            rustix::thread::set_thread_res_gid(group, group, group)
                .doing("become the sandbox's group")?;
            rustix::thread::set_thread_res_uid(user, user, user)
                .doing("become the sandbox's user")?;
            rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)
                .doing("write its own maps")?;
            (SANDBOX_USER, SANDBOX_USER)
        }
        Caller::User { .. } => (0, 0),
    };
    // A user namespace that owns none of the others has no rights over them, and counts its own processes.
    sys::unshare(UnshareFlags::NEWUSER).doing("make a user namespace")?;
    let inside = caller.inside();
    map_self((inside.0, outside.0), (inside.1, outside.1))?;
    rustix::thread::set_no_new_privs(true).doing("gain no privileges")?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none).doing("drop all capabilities")?;
    // Nobody in the sandbox may look into this process, though it is the same user.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .doing("hide from its commands")
}

fn layers(setup: &Setup, landlock: u64) -> Vec<LayerReport> {
    let network = match setup.network {
        NetworkKind::Off | NetworkKind::Gateway => Standing::Enforced,
        NetworkKind::Host => {
            Standing::Absent { reason: "the policy gives it the host's network".to_owned() }
        }
    };
    let landlock = match landlock {
        0 => Standing::Absent { reason: "this kernel has no Landlock".to_owned() },
        1..=5 => Standing::Partly {
            lacking: format!(
                "version {landlock} of 6: signals and abstract sockets are not covered"
            ),
        },
        _ => Standing::Enforced,
    };
    let total = match &setup.ungrouped {
        None => Standing::Enforced,
        Some(why) => Standing::Partly {
            lacking: format!(
                "{why}; memory is looked at several times a second instead, memfds and System V \
                 segments are refused, and shared memory that is no longer mapped is not counted"
            ),
        },
    };
    let enforced = [
        Layer::User,
        Layer::Mounts,
        Layer::Processes,
        Layer::Ipc,
        Layer::Privileges,
        Layer::SystemCalls,
        Layer::Limits,
    ];
    let mut reports: Vec<_> = enforced
        .into_iter()
        .map(|layer| LayerReport { layer, standing: Standing::Enforced })
        .collect();
    reports.push(LayerReport { layer: Layer::Network, standing: network });
    reports.push(LayerReport { layer: Layer::Landlock, standing: landlock });
    reports.push(LayerReport { layer: Layer::TotalMemory, standing: total });
    reports
}
