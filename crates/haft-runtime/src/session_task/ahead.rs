//! Calls that leave no trace, run before they are recorded: begin and end are then one write. A crash in between leaves no trace in the log, as it leaves none in the world.

use std::collections::HashMap;
use std::time::Duration;

use haft_core::session::{Decision, Effect, Open, decide};
use tokio::time::Instant;

use super::{Letter, SessionTask};
use crate::job::{Done, JobKey};
use crate::performer::{Performer, Task};

/// How long a write waits for them; whatever takes longer is recorded as begun.
const AHEAD_MAX: Duration = Duration::from_millis(5);

impl<P: Performer> SessionTask<P> {
    /// Runs what a decision would have run after it is recorded, if all of that may run before,
    /// and adds to the decision what comes of it. Whoever listens to every step hears them in
    /// their order, so then nothing is run ahead.
    pub(super) async fn run_ahead(&mut self, decision: &mut Decision) {
        let Some(open) = decision.state.as_open() else { return };
        if self.shared.live.steps_are_heard()
            || decision.effects.is_empty()
            || !decision.effects.iter().all(|effect| self.leaves_no_trace(open, effect))
        {
            return;
        }
        let effects = std::mem::take(&mut decision.effects);
        let mut awaited: HashMap<JobKey, u64> = HashMap::new();
        for effect in effects {
            if let Effect::Execute { call, attempt, fingerprint, .. } = effect
                && let Some(call) = open.call(call).cloned()
            {
                let task = Task::Execute { call: Box::new(call), attempt, fingerprint };
                awaited.insert(task.key(), self.start(open, task));
            }
        }
        let until = Instant::now() + AHEAD_MAX;
        while !awaited.is_empty() {
            let Ok(Some(letter)) = tokio::time::timeout_at(until, self.letters.recv()).await else {
                return;
            };
            match letter {
                Letter::Done(done) if awaited.get(&done.key) == Some(&done.number) => {
                    awaited.remove(&done.key);
                    self.end_running(done.key, done.number);
                    self.add(decision, done);
                }
                other => self.backlog.push_back(other),
            }
        }
    }

    fn leaves_no_trace(&self, open: &Open, effect: &Effect) -> bool {
        let Effect::Execute { call, .. } = effect else { return false };
        open.call(*call).is_some_and(|call| self.shared.performer.leaves_no_trace(open, call))
    }

    fn add(&self, decision: &mut Decision, done: Done) {
        let now = self.shared.clock.now();
        match decide(&decision.state, now, *done.input) {
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
