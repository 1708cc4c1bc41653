//! The persistent shell of a session, and the command that runs in it.

use super::masking::Secrets;
use haft_sandbox::process::Said;
use haft_sandbox::shell::{Executed, Executing, Shell, ShellState};
use std::fs::File;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A shell that is open.
#[derive(Debug)]
pub(crate) struct OpenShell {
    pub(crate) id: String,
    pub(crate) started_at: i64,
    pub(crate) shell: Shell,
    live: Mutex<Option<Live>>,
}

/// A command that was started and whose end nobody has recorded yet.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) command_id: String,
    pub(crate) tool: &'static str,
    pub(crate) command: String,
    pub(crate) cwd: String,
    pub(crate) started_at: i64,
    pub(crate) executing: Executing,
    pub(crate) spilled: File,
    /// What it must not be recorded to have said.
    pub(crate) secrets: Secrets,
}

/// A command that ended, for whoever records it.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) live: Live,
    pub(crate) executed: Executed,
}

/// What is running, for those who look.
#[derive(Debug, Clone)]
pub(crate) struct Glance {
    pub(crate) command_id: String,
    pub(crate) command: String,
    pub(crate) started_at: i64,
    pub(crate) stdout: Said,
    pub(crate) stderr: Said,
    pub(crate) secrets: Secrets,
}

impl OpenShell {
    pub(crate) fn new(id: String, started_at: i64, shell: Shell) -> Self {
        Self { id, started_at, shell, live: Mutex::new(None) }
    }

    pub(crate) fn begin(&self, live: Live) {
        *self.lock() = Some(live);
    }

    /// What to wait for.
    pub(crate) fn executing(&self) -> Option<Executing> {
        self.lock().as_ref().map(|live| live.executing.clone())
    }

    /// Takes the command away if it has ended: only one caller records it.
    pub(crate) fn settle(&self) -> Option<Settled> {
        let mut live = self.lock();
        let executed = live.as_ref()?.executing.wait_for(std::time::Duration::ZERO)?;
        Some(Settled { live: live.take()?, executed })
    }

    pub(crate) fn glance(&self) -> Option<Glance> {
        let live = self.lock();
        let live = live.as_ref()?;
        let (stdout, stderr) = live.executing.said()?;
        Some(Glance {
            command_id: live.command_id.clone(),
            command: live.command.clone(),
            started_at: live.started_at,
            stdout,
            stderr,
            secrets: live.secrets.clone(),
        })
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.shell.state(), ShellState::Closed { .. } | ShellState::Dying)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
