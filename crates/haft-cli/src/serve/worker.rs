//! Workers that run beside the server: started with it, restarted when they end, ended with it.

use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use haft_core::Digest;
use haft_runtime::CancellationToken;
use haft_server::Server;
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::Verdict;
use crate::trouble::{Code, Trouble};

/// How long a command that ended at once waits before it is started again, at first and at most.
const RESTART_AFTER: Duration = Duration::from_millis(200);
const RESTART_AFTER_MAX: Duration = Duration::from_secs(10);
/// A command that ran for this long did not end at once.
const RAN_WELL: Duration = Duration::from_secs(10);
/// How long a command may take to stop once it is asked to.
const STOPPED_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub(crate) struct WorkerArgs {
    /// The process of the server.
    server: i32,
    /// What to run.
    command: String,
}

/// Becomes the command of a worker, which the kernel kills when the server dies: the server that
/// is started next tells that whoever had the worker's name is dead.
///
/// # Errors
///
/// When the command cannot be run, or the server is dead already.
#[expect(clippy::disallowed_methods, reason = "it becomes the operator's command, unconfined")]
pub(crate) fn become_worker(args: &WorkerArgs) -> anyhow::Result<Verdict> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let parent = getppid().map(|parent| parent.as_raw_nonzero().get());
    anyhow::ensure!(parent == Some(args.server), "the server has ended");
    let mut shell = std::process::Command::new("/bin/sh");
    let error = shell.arg("-c").arg(script(&args.command)).exec();
    Err(error).context("starting the worker's command")
}

/// The shell becomes the command, so that signals reach it. It cannot become an assignment.
fn script(command: &str) -> String {
    let command = command.trim_start();
    let is_assignment = command.split_once('=').is_some_and(|(name, _)| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    });
    if is_assignment { format!("exec env {command}") } else { format!("exec {command}") }
}

/// Refuses workers beside a server that serves HTTPS: they are told its address, which its
/// certificate need not name, and trust what their language does.
pub(super) fn refuse_https(commands: &[String], is_https: bool) -> Result<(), Trouble> {
    if commands.is_empty() || !is_https {
        return Ok(());
    }
    Err(Trouble::new(Code::BadConfig, "--worker is given together with --tls-cert")
        .why("a worker that is started here would not trust the certificate")
        .next(
            "leave out --worker and run the worker itself, with HAFT_URL set to an address that \
             the certificate names and HAFT_API_KEY to a key of `haft keys create --scope work`; \
             or serve HTTP behind a proxy that has the certificate",
        ))
}

/// Where the workers of a server find it.
#[derive(Debug, Clone)]
pub(super) struct ServerPlace {
    url: String,
    port: u16,
    /// A key that can be a worker's and nothing else.
    key: String,
}

impl ServerPlace {
    pub(super) fn of(server: &Server, key: String) -> Self {
        Self { url: server.base_address(), port: server.address().port(), key }
    }
}

/// The workers of a server. They are killed when this is dropped.
pub(super) struct WorkerProcesses {
    tasks: Vec<JoinHandle<()>>,
    stopping: Stopping,
}

/// How far the server is with stopping.
#[derive(Debug, Clone)]
struct Stopping {
    /// Whether workers that end are left so.
    begun: CancellationToken,
    /// Whether those that run are to end.
    end: CancellationToken,
}

/// Starts the commands, each as a worker of its own name.
pub(super) fn start_all(commands: &[String], server: &ServerPlace) -> WorkerProcesses {
    let stopping = Stopping { begun: CancellationToken::new(), end: CancellationToken::new() };
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let start = |(at, command): (usize, &String)| {
        let n_before = commands.iter().take(at).filter(|other| *other == command).count();
        let name = name(host.trim(), server.port, command, n_before);
        let worker = Worker { command: command.clone(), name, server: server.clone() };
        tokio::spawn(worker.supervised(stopping.clone()))
    };
    let tasks = commands.iter().enumerate().map(start).collect();
    WorkerProcesses { tasks, stopping }
}

/// The name of a worker: the same after a restart, and no other node's, as whoever registers under
/// a name says that nobody else has it.
fn name(host: &str, port: u16, command: &str, n_before: usize) -> String {
    // Names are printable and not long.
    let host: String = host.chars().filter(|c| c.is_ascii_graphic()).take(64).collect();
    let digest = Digest::of_parts(&[command.as_bytes()]);
    let digest: String = digest.as_bytes()[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    let name = format!("serve-{host}-{port}-{digest}");
    if n_before == 0 { name } else { format!("{name}-{}", n_before + 1) }
}

impl WorkerProcesses {
    /// Returns what to cancel when the server begins to stop: workers that end by themselves are
    /// then not started again.
    pub(super) fn stopping(&self) -> CancellationToken {
        self.stopping.begun.clone()
    }

    /// Ends the workers: each is asked to stop, and killed if it does not.
    pub(super) async fn end(mut self) {
        self.stopping.begun.cancel();
        self.stopping.end.cancel();
        for task in std::mem::take(&mut self.tasks) {
            drop(task.await);
        }
    }
}

impl Drop for WorkerProcesses {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

struct Worker {
    command: String,
    name: String,
    server: ServerPlace,
}

impl Worker {
    async fn supervised(self, stopping: Stopping) {
        let mut pause = RESTART_AFTER;
        while !stopping.begun.is_cancelled() {
            let started = Instant::now();
            match self.start() {
                Ok(child) => self.watch(child, &stopping).await,
                Err(error) => {
                    tracing::error!(worker = %self.name, %error, "a worker could not be started");
                }
            }
            let ran_well = started.elapsed() > RAN_WELL;
            pause = if ran_well { RESTART_AFTER } else { (pause * 2).min(RESTART_AFTER_MAX) };
            tokio::select! {
                () = stopping.begun.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// The process before it has ended, so that it may have the same name: that tells the server
    /// at once what died with it.
    fn start(&self) -> std::io::Result<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("serve-worker").arg(std::process::id().to_string()).arg(&self.command);
        command.stdin(Stdio::null());
        // What the server says to people stays on its own output.
        command.stdout(Stdio::from(std::io::stderr()));
        // Ctrl-C at the terminal is for the server, which has its workers finish first.
        command.process_group(0);
        command.env("HAFT_URL", &self.server.url).env("HAFT_API_KEY", &self.server.key);
        command.env("HAFT_WORKER", &self.name).kill_on_drop(true).spawn()
    }

    /// Waits for the end of the command, or ends it.
    async fn watch(&self, mut child: Child, stopping: &Stopping) {
        tokio::select! {
            ended = child.wait() => {
                let status = ended.map_or_else(|error| error.to_string(), |it| it.to_string());
                let then = match stopping.begun.is_cancelled() {
                    true => "a worker ended",
                    false => "a worker ended and is started again",
                };
                tracing::warn!(worker = %self.name, %status, "{then}");
                return;
            }
            () = stopping.end.cancelled() => {}
        }
        let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        // It may have ended by itself.
        pid.and_then(|pid| kill_process(pid, Signal::TERM).ok());
        if tokio::time::timeout(STOPPED_WITHIN, child.wait()).await.is_err() {
            tracing::warn!(worker = %self.name, "a worker did not stop and is killed");
            drop(child.kill().await);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_may_begin_with_variables() {
        assert_eq!(script("python desk.py a=b"), "exec python desk.py a=b");
        assert_eq!(script(" A_1=b python desk.py"), "exec env A_1=b python desk.py");
        assert_eq!(script("./a-b=c"), "exec ./a-b=c");
    }

    #[test]
    fn a_name_is_stable_and_no_other_node_s() {
        let desk = name("here", 7800, "python desk.py", 0);
        assert_eq!(desk, name("here", 7800, "python desk.py", 0));
        let others = [
            name("there", 7800, "python desk.py", 0),
            name("here", 7801, "python desk.py", 0),
            name("here", 7800, "python till.py", 0),
            name("here", 7800, "python desk.py", 1),
        ];
        assert!(!others.contains(&desk), "{desk} {others:?}");
    }

    #[test]
    fn workers_beside_https_are_refused() {
        let commands = ["python desk.py".to_owned()];
        assert!(refuse_https(&commands, false).is_ok());
        assert!(refuse_https(&[], true).is_ok());
        assert!(refuse_https(&commands, true).is_err());
    }
}
