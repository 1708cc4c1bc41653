//! A tool whose code a worker runs, as a tool of the node.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use haft_core::session::{Preview, Returned, Verification};
use haft_core::tool::Definition;
use haft_core::{Digest, SessionId};
use haft_runtime::{Tool, ToolArguments, ToolContext, ToolError, ToolFuture};
use haft_store::{Store, Tenant};
use tokio::time::Instant;

use super::desk::{Desk, Holding, JobEnd, Ticket};
use super::job::{Job, JobKind, WorkerOutcome};

/// How long a call in doubt waits for a worker to verify it, before a person is asked.
const VERIFIED_WITHIN: Duration = Duration::from_secs(60);
/// How many sessions are remembered.
const REMEMBERED_MAX: usize = 4096;

pub(super) struct WorkerTool {
    definition: Definition,
    digest: Digest,
    tenant: Tenant,
    desk: Arc<Desk>,
    store: Store,
    /// Whether sessions are the tenant's, which never changes. Ids are ordered by time.
    known: Mutex<BTreeMap<SessionId, bool>>,
}

impl WorkerTool {
    pub(super) fn new(
        definition: Definition,
        digest: Digest,
        tenant: Tenant,
        (desk, store): (Arc<Desk>, Store),
    ) -> Self {
        Self { definition, digest, tenant, desk, store, known: Mutex::default() }
    }

    /// Refuses the session of another tenant: all tenants of a node share its registry.
    async fn require_tenant(&self, session: SessionId) -> Result<(), ToolError> {
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().get(&session).copied();
        let is_theirs = match known {
            Some(known) => known,
            None => {
                let is_theirs = self.store.tenant(session).await?.as_ref() == Some(&self.tenant);
                let mut known = lock();
                known.insert(session, is_theirs);
                if known.len() > REMEMBERED_MAX {
                    known.pop_first();
                }
                is_theirs
            }
        };
        match is_theirs {
            true => Ok(()),
            false => Err(ToolError::new("the worker of this tool works for another tenant")),
        }
    }

    fn job(&self, kind: JobKind, arguments: ToolArguments, context: &ToolContext) -> Job {
        Job {
            kind,
            tool: self.definition.name.clone(),
            digest: self.digest,
            tenant: self.tenant.clone(),
            arguments,
            timeout: self.definition.exec_timeout,
            context: context.clone(),
        }
    }

    /// Has a worker do a job, and returns what it says. The clock of the attempt stands still
    /// while none has it.
    async fn done(
        &self,
        kind: JobKind,
        arguments: ToolArguments,
        context: &ToolContext,
    ) -> Result<WorkerOutcome, ToolError> {
        self.require_tenant(context.session()).await?;
        // Before approval nobody has started a clock that could stand still.
        let paused = || (context.attempt() > 0).then(|| context.pause_clock());
        let mut pause = paused();
        let mut ticket = self.desk.submit(self.job(kind, arguments, context));
        let stop = context.stop().clone();
        let mut is_stopped = false;
        loop {
            let lapses_at = ticket.lapses_at();
            tokio::select! {
                biased;
                Some(holding) = ticket.holding.recv() => match holding {
                    Holding::Taken(nonce) => {
                        ticket.held_by(Some(nonce));
                        drop(pause.take());
                        if is_stopped {
                            ticket.cancel();
                        }
                    }
                    Holding::GivenBack => {
                        ticket.held_by(None);
                        pause = paused();
                        if is_stopped && ticket.withdraw() {
                            return Err(ToolError::cancelled().without_effect());
                        }
                    }
                },
                ended = &mut ticket.ended => return ended_as(ended.ok()),
                () = stop.cancelled(), if !is_stopped => {
                    if ticket.withdraw() {
                        return Err(ToolError::cancelled().without_effect());
                    }
                    is_stopped = true;
                    ticket.cancel();
                }
                () = sleep_until(lapses_at) => lapsed(&ticket)?,
            }
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// A worker that is silent may still be at work, so a verify function that sees nothing proves
/// nothing.
fn lapsed(ticket: &Ticket) -> Result<(), ToolError> {
    match ticket.lapse() {
        None => Ok(()),
        Some(worker) => Err(ToolError::unknown_and_running(format!(
            "the worker `{worker}` took the call and has not been heard of since; it may still be \
             running, and what it says in the end settles the call"
        ))),
    }
}

fn ended_as(ended: Option<JobEnd>) -> Result<WorkerOutcome, ToolError> {
    match ended {
        Some(JobEnd::Said(outcome)) => Ok(outcome),
        Some(JobEnd::Died { worker }) => Err(ToolError::unknown(format!(
            "the worker `{worker}` died while it ran the call: another process registered under \
             its name"
        ))),
        None => Err(ToolError::unknown("the server lost track of the worker that has the call")),
    }
}

impl Tool for WorkerTool {
    fn definition(&self) -> Definition {
        self.definition.clone()
    }

    fn tenant(&self) -> Option<&Tenant> {
        Some(&self.tenant)
    }

    fn call(
        &self,
        arguments: ToolArguments,
        context: ToolContext,
    ) -> ToolFuture<'_, Result<Returned, ToolError>> {
        Box::pin(async move { self.done(JobKind::Run, arguments, &context).await?.returned() })
    }

    fn preview(
        &self,
        arguments: ToolArguments,
        context: ToolContext,
    ) -> ToolFuture<'_, Result<Preview, ToolError>> {
        Box::pin(async move { self.done(JobKind::Preview, arguments, &context).await?.preview() })
    }

    /// A worker that ran the attempt may have outlived the node that started it. So nobody is
    /// asked what became of the attempt while a worker still says that it runs.
    fn verify(
        &self,
        arguments: ToolArguments,
        context: ToolContext,
    ) -> ToolFuture<'_, Verification> {
        Box::pin(async move {
            let _pause = context.pause_clock();
            if !self.desk.is_quiet(context.call(), context.attempt()).await {
                return Verification::Unknown;
            }
            let asked = self.done(JobKind::Verify, arguments, &context);
            tokio::select! {
                said = tokio::time::timeout(VERIFIED_WITHIN, asked) => match said {
                    Ok(Ok(outcome)) => outcome.verification(),
                    Ok(Err(_)) | Err(_) => Verification::Unknown,
                },
                () = self.desk.late_report(context.call()) => Verification::Unknown,
            }
        })
    }
}
