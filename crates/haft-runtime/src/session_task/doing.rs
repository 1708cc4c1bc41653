//! What follows from a decision: jobs are started and stopped.

use std::sync::Arc;

use haft_core::session::{Activity, Call, Driver, Effect, Open};
use haft_core::{CallId, Millis, SessionId, Timestamp};
use tokio::sync::mpsc;
use tracing::Span;

use super::{Follow, Letter, SessionTask};
use crate::attempt_timer::AttemptTimer;
use crate::boundary::Boundary;
use crate::cancellation::CancellationToken;
use crate::driver::Shared;
use crate::error::InputError;
use crate::job::{Done, JobKey, Work};
use crate::performer::{Entry, Job, Performer, Task};
use crate::pools::Slot;

/// A retry that is due sooner is not left to the sweeps.
const SHORT_WAIT: Millis = Millis::from_secs(10);

/// A job under way. Its number tells it from an earlier one for the same thing, whose answer
/// would be about a tool that has changed since.
pub(super) struct Running {
    pub(super) number: u64,
    pub(super) stop: CancellationToken,
}

impl<P: Performer> SessionTask<P> {
    /// Does what follows from what was decided.
    pub(super) fn follow(&mut self, effects: Vec<Effect>, follow: Follow) {
        self.trace_run();
        self.leave_queues();
        self.stop_what_nobody_waits_for();
        for effect in effects {
            let begins = !matches!(effect, Effect::AbortModel { .. } | Effect::Cancel { .. });
            if follow != Follow::Nothing || !begins {
                self.perform(&effect);
            }
        }
    }

    /// Stops jobs whose answer changes nothing any more: what ended them may have been recorded by
    /// someone who does not own the session and could not stop them.
    fn stop_what_nobody_waits_for(&self) {
        if self.running.is_empty() {
            return;
        }
        let open = self.state.as_open();
        let is_asked = |turn: u32, attempt: u32| {
            let current = |open: &Open| (open.turn, open.activity);
            open.map(current) == Some((turn, Activity::Thinking { attempt }))
        };
        let is_open = |call: CallId| {
            let call = open.and_then(|open| open.call(call));
            call.is_some_and(|call| call.phase.is_open())
        };
        self.stop(|key| match *key {
            JobKey::Model { turn, attempt } => !is_asked(turn, attempt),
            JobKey::Preview { call } | JobKey::Verify { call, .. } => !is_open(call),
            JobKey::Queue { .. }
            | JobKey::Execute { .. }
            | JobKey::Child { .. }
            | JobKey::Parent
            | JobKey::Root => false,
        });
    }

    fn perform(&mut self, effect: &Effect) {
        match *effect {
            Effect::RunModel { turn, attempt } => {
                let state = Arc::clone(&self.state);
                let Some(open) = state.as_open() else { return };
                self.start(open, Task::AskModel { turn, attempt, open: Box::new(open.clone()) });
            }
            Effect::AbortModel { turn } => {
                let asked =
                    |key: &JobKey| matches!(key, JobKey::Model { turn: t, .. } if *t == turn);
                self.stop(asked);
            }
            Effect::Preview { call } => {
                self.start_for(call, |call| Task::Preview { call });
            }
            Effect::Queue { call } => self.queue(call),
            Effect::Execute { call, attempt, fingerprint, .. } => {
                self.start_for(call, |call| Task::Execute { call, attempt, fingerprint });
            }
            Effect::Cancel { call, .. } => self.stop(|key| key.call() == Some(call)),
            Effect::Verify { call, attempt } => {
                self.start_for(call, |call| Task::Verify { call, attempt });
            }
            Effect::OpenChild { call } => self.open_child(call),
            Effect::StopChild { child } => self.stop_child(child),
            Effect::TellParent { turn } => self.tell_parent(turn),
            Effect::ReportUp { root } => self.report_up(root),
            Effect::ScheduleRetry { due, .. } => self.wake_at(due),
        }
    }

    fn start_for(&mut self, call: CallId, task: impl FnOnce(Box<Call>) -> Task) {
        let state = Arc::clone(&self.state);
        if let Some(open) = state.as_open()
            && let Some(call) = open.call(call).cloned()
        {
            self.start(open, task(Box::new(call)));
        }
    }

    /// Starts a job for a session that stands so.
    fn start(&mut self, open: &Open, task: Task) {
        let job = self.job(open, task);
        let (key, stop) = (job.task.key(), job.stop.clone());
        let slot = match key {
            JobKey::Execute { call, .. } => self.slots.remove(&call),
            _ => None,
        };
        let number = self.note_running(key, stop);
        let (shared, mailbox) = (Arc::clone(&self.shared), self.mailbox.clone());
        let (term, within) = (self.sure_term(), self.span());
        tokio::spawn(async move {
            shared.observer.pass(Boundary::JobStarting);
            // The last look before the deed: the process may have been frozen until here.
            if term.is_none() || shared.lease.term() != term {
                let letter = Letter::NotBegun(Box::new(job.task), number, slot);
                // The task may be gone: then the next owner recovers the call.
                return mailbox.send(letter).await.unwrap_or_default();
            }
            let session = job.session;
            let work = Work::begin(Arc::clone(&shared.performer), job, slot, within);
            report(shared, session, mailbox, work, number).await;
        });
    }

    pub(super) fn job(&self, open: &Open, task: Task) -> Job {
        Job {
            session: self.session,
            opened_by: open.opened_by.clone(),
            config: Arc::clone(&open.config),
            turn: open.turn,
            task,
            stop: CancellationToken::new(),
            timer: AttemptTimer::default(),
            entry: Entry::default(),
        }
    }

    /// Returns the span that what is done for the session belongs to.
    pub(super) fn span(&self) -> Span {
        self.run.clone().unwrap_or_else(Span::none)
    }

    /// Goes on without waiting for a job that was begun; its end is a letter.
    pub(super) fn leave_running(&mut self, work: Work) {
        let number = self.note_running(work.key(), work.stop().clone());
        let (shared, mailbox) = (Arc::clone(&self.shared), self.mailbox.clone());
        tokio::spawn(report(shared, self.session, mailbox, work, number));
    }

    pub(super) fn note_running(&mut self, key: JobKey, stop: CancellationToken) -> u64 {
        self.n_jobs += 1;
        let number = self.n_jobs;
        if let Some(earlier) = self.running.insert(key, Running { number, stop }) {
            earlier.stop.cancel();
        }
        number
    }

    /// Keeps a span around what an agent does from one message to idle, as far as this process
    /// sees it; the session's id ties it to what others saw.
    fn trace_run(&mut self) {
        let at_work = self.state.as_open().filter(|open| open.activity != Activity::Idle);
        let Some(open) = at_work.filter(|open| open.config.driver == Driver::Model) else {
            self.run = None;
            return;
        };
        self.run.get_or_insert_with(|| {
            let agent = open.config.agent.as_ref().map_or("agent", |agent| &*agent.id);
            tracing::info_span!(
                parent: None,
                "invoke_agent",
                otel.name = format!("invoke_agent {agent}"),
                gen_ai.operation.name = "invoke_agent",
                gen_ai.agent.name = agent,
                gen_ai.conversation.id = %open.session,
                haft.run = format!("{}/{}", open.session, open.first_turn_of_run()),
                haft.resumed = open.turn > open.first_turn_of_run() || open.calls().next().is_some(),
            )
        });
    }

    /// A job that found the node's lease to be over is begun after all, if the session is still
    /// ours.
    pub(super) async fn begin_again(
        &mut self,
        task: Task,
        number: u64,
        slot: Option<Slot>,
    ) -> Result<(), InputError> {
        if !self.end_running(task.key(), number) {
            return Ok(());
        }
        self.stay_owner().await?;
        if let (JobKey::Execute { call, .. }, Some(slot)) = (task.key(), slot) {
            self.slots.insert(call, slot);
        }
        let state = Arc::clone(&self.state);
        if let Some(open) = state.as_open() {
            self.start(open, task);
        }
        Ok(())
    }

    /// Returns whether this very job was under way, and notes that it is not any more.
    pub(super) fn end_running(&mut self, key: JobKey, number: u64) -> bool {
        let current = self.running.get(&key).is_some_and(|job| job.number == number);
        if current {
            self.running.remove(&key);
        }
        current
    }

    pub(super) fn stop(&self, which: impl Fn(&JobKey) -> bool) {
        self.running.iter().filter(|(key, _)| which(key)).for_each(|(_, job)| job.stop.cancel());
    }

    /// The store keeps the timer; this only spares a short retry the next sweep.
    fn wake_at(&self, due: Timestamp) {
        let wait = due.since(self.shared.clock.now());
        if wait > SHORT_WAIT {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let session = self.session;
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(wait.into()) => Shared::wake(&shared, session, None),
                () = shared.drained() => {}
            }
        });
    }
}

/// Waits for a job's end and tells its session. What a tool does after its time was up, or after
/// it was told to stop, is told when it has been done: that settles a call in doubt.
async fn report<P: Performer>(
    shared: Arc<Shared<P>>,
    session: SessionId,
    mailbox: mpsc::Sender<Letter>,
    mut work: Work,
    number: u64,
) {
    let (key, stop) = (work.key(), work.stop().clone());
    let input = work.ended(shared.stop_grace).await;
    if shared.leaving.is_cancelled() {
        // What would not stop must not keep a node that is gone, and its store with it.
        work.abort();
    }
    shared.observer.pass(Boundary::JobEnded);
    let done = Done { key, number, input: Box::new(input), stopped: stop.is_cancelled() };
    if let Err(unread) = mailbox.send(Letter::Done(done)).await
        && let Letter::Done(done) = unread.0
    {
        Shared::report_late(&shared, session, done);
    }
    tokio::select! {
        late = work.late_word() => if let Some(input) = late {
            let done = Done { key, number, input: Box::new(input), stopped: true };
            Shared::report_late(&shared, session, done);
        },
        () = shared.leaving.cancelled() => work.abort(),
    }
}
