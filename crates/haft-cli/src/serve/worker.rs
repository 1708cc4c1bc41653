//! Workers that run beside the server: started with it, restarted when they end, ended with it.

use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use haft_runtime::CancellationToken;
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::Verdict;

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
    // The shell becomes the command, so that signals reach it.
    let error = shell.arg("-c").arg(format!("exec {}", args.command)).exec();
    Err(error).context("starting the worker's command")
}

/// Where the workers of a server find it.
#[derive(Debug, Clone)]
pub(super) struct ServerPlace {
    pub(super) url: String,
    /// A key that can be a worker's and nothing else.
    pub(super) key: String,
}

/// The workers of a server. They are killed when this is dropped.
pub(super) struct WorkerProcesses {
    tasks: Vec<JoinHandle<()>>,
    stop: CancellationToken,
}

/// Starts the commands, each as a worker of its own name.
pub(super) fn start_all(commands: &[String], server: &ServerPlace) -> WorkerProcesses {
    let stop = CancellationToken::new();
    let start = |(at, command): (usize, &String)| {
        let (command, name) = (command.clone(), format!("serve-{}", at + 1));
        let worker = Worker { command, name, server: server.clone() };
        tokio::spawn(worker.supervised(stop.clone()))
    };
    let tasks = commands.iter().enumerate().map(start).collect();
    WorkerProcesses { tasks, stop }
}

impl WorkerProcesses {
    /// Ends the workers: each is asked to stop, and killed if it does not.
    pub(super) async fn end(mut self) {
        self.stop.cancel();
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
    async fn supervised(self, stop: CancellationToken) {
        let mut pause = RESTART_AFTER;
        while !stop.is_cancelled() {
            let started = Instant::now();
            match self.start() {
                Ok(child) => self.watch(child, &stop).await,
                Err(error) => {
                    tracing::error!(worker = %self.name, %error, "a worker could not be started");
                }
            }
            let ran_well = started.elapsed() > RAN_WELL;
            pause = if ran_well { RESTART_AFTER } else { (pause * 2).min(RESTART_AFTER_MAX) };
            tokio::select! {
                () = stop.cancelled() => {}
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
        command.env("HAFT_URL", &self.server.url).env("HAFT_API_KEY", &self.server.key);
        command.env("HAFT_WORKER", &self.name).kill_on_drop(true).spawn()
    }

    /// Waits for the end of the command, or ends it.
    async fn watch(&self, mut child: Child, stop: &CancellationToken) {
        tokio::select! {
            ended = child.wait() => {
                let status = ended.map_or_else(|error| error.to_string(), |it| it.to_string());
                tracing::warn!(worker = %self.name, %status, "a worker ended and is started again");
                return;
            }
            () = stop.cancelled() => {}
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
