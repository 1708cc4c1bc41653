//! Calls that leave no trace, run before they are recorded: begin and end are then one write. A
//! crash in between leaves no trace in the log, as it leaves none in the world.

use std::sync::Arc;
use std::time::Duration;

use haft_core::Timestamp;
use haft_core::session::{Decision, Effect, Input, Open, decide};
use tokio::time::Instant;

use super::SessionTask;
use crate::boundary::Boundary;
use crate::job::Work;
use crate::performer::{Performer, Task};

/// How long a write waits for them; whatever takes longer is recorded as begun.
const AHEAD_MAX: Duration = Duration::from_millis(5);

impl<P: Performer> SessionTask<P> {
    /// Runs what a decision would have run after it is recorded, if all of that may run before,
    /// and adds to the decision what comes of it. Whoever listens to every step hears them in
    /// their order, so then nothing is run ahead.
    pub(super) async fn run_ahead(&mut self, decision: &mut Decision, now: Timestamp) {
        let Some(open) = decision.state.as_open() else { return };
        if self.shared.live.steps_are_heard()
            || decision.effects.is_empty()
            || !decision.effects.iter().all(|effect| self.leaves_no_trace(open, effect))
        {
            return;
        }
        // What is begun after the last look at the lease must be begun by its owner.
        if self.sure_term().is_none() {
            return;
        }
        let works: Vec<Work> = std::mem::take(&mut decision.effects)
            .iter()
            .filter_map(|effect| self.begin_ahead(open, effect))
            .collect();
        let until = Instant::now() + AHEAD_MAX;
        for mut work in works {
            match work.ended_by(until).await {
                Some(input) => {
                    self.shared.observer.pass(Boundary::JobEnded);
                    self.add(decision, now, input);
                }
                None => self.leave_running(work),
            }
        }
    }

    fn begin_ahead(&self, open: &Open, effect: &Effect) -> Option<Work> {
        let Effect::Execute { call, attempt, fingerprint, .. } = *effect else { return None };
        let call = Box::new(open.call(call)?.clone());
        self.shared.observer.pass(Boundary::JobStarting);
        let job = self.job(open, Task::Execute { call, attempt, fingerprint });
        Some(Work::begin(Arc::clone(&self.shared.performer), job, None, self.span()))
    }

    fn leaves_no_trace(&self, open: &Open, effect: &Effect) -> bool {
        let Effect::Execute { call, .. } = effect else { return false };
        open.call(*call).is_some_and(|call| self.shared.performer.leaves_no_trace(open, call))
    }

    /// Decides what follows as of the moment of the decision, with which it is recorded.
    pub(super) fn add(&self, decision: &mut Decision, now: Timestamp, input: Input) {
        match decide(&decision.state, now, input) {
            Ok(next) => {
                decision.events.extend(next.events);
                decision.effects.extend(next.effects);
                decision.state = next.state;
            }
            Err(refused) => {
                tracing::debug!(session = %self.session, %refused, "a report changes nothing");
            }
        }
    }
}
