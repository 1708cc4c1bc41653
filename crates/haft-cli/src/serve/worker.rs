//! Workers that run beside the server: started with it, restarted when they end, ended with it.

use std::process::Stdio;
use std::time::Duration;

use haft_runtime::CancellationToken;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How long a command that ended at once waits before it is started again, at first and at most.
const RESTART_AFTER: Duration = Duration::from_millis(200);
const RESTART_AFTER_MAX: Duration = Duration::from_secs(10);
/// A command that ran for this long did not end at once.
const RAN_WELL: Duration = Duration::from_secs(10);
/// How long a command may take to stop once it is asked to.
const STOPPED_WITHIN: Duration = Duration::from_secs(5);

/// Where the workers of a server find it.
#[derive(Debug, Clone)]
pub(super) struct ServerPlace {
    pub(super) url: String,
    /// A key that can be a worker's and nothing else.
    pub(super) key: String,
}

/// The workers of a server. They are killed when this is dropped.
pub(super) struct Supervised {
    tasks: Vec<JoinHandle<()>>,
    stop: CancellationToken,
}

/// Starts the commands, each as a worker of its own name.
pub(super) fn start_all(commands: &[String], server: &ServerPlace) -> Supervised {
    let stop = CancellationToken::new();
    let start = |(at, command): (usize, &String)| {
        let (command, name) = (command.clone(), format!("serve-{}", at + 1));
        let worker = Worker { command, name, server: server.clone() };
        tokio::spawn(worker.supervised(stop.clone()))
    };
    let tasks = commands.iter().enumerate().map(start).collect();
    Supervised { tasks, stop }
}

impl Supervised {
    /// Ends the workers: each is asked to stop, and killed if it does not.
    pub(super) async fn end(mut self) {
        self.stop.cancel();
        for task in std::mem::take(&mut self.tasks) {
            drop(task.await);
        }
    }
}

impl Drop for Supervised {
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
        let mut command = Command::new("/bin/sh");
        // The shell becomes the command, so that signals reach it.
        command.arg("-c").arg(format!("exec {}", self.command)).stdin(Stdio::null());
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
