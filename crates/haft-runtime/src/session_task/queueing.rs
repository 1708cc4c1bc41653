//! Calls that wait for room in the pools of their tools, which are beyond the session.

use std::sync::Arc;

use haft_core::session::{Decision, Effect, Input, SlotTaken, State};
use haft_core::tool::Pool;
use haft_core::{CallId, Timestamp};

use super::{Letter, SessionTask};
use crate::cancellation::CancellationToken;
use crate::error::InputError;
use crate::job::JobKey;
use crate::performer::Performer;
use crate::pools::Slot;

impl<P: Performer> SessionTask<P> {
    /// Takes places for the calls that a decision would queue, as far as there is room, and adds
    /// to the decision that they start: queued and started are then one write.
    pub(super) fn take_free_slots(
        &self,
        decision: &mut Decision,
        now: Timestamp,
    ) -> Vec<(CallId, Slot)> {
        let queued: Vec<CallId> = decision.effects.iter().filter_map(queued_call).collect();
        let mut slots = Vec::new();
        for call in queued {
            let pools = pools_of(&decision.state, call);
            let Some(slot) = self.shared.pools.try_take(&pools) else { continue };
            decision.effects.retain(|effect| queued_call(effect) != Some(call));
            self.add(decision, now, Input::SlotTaken(SlotTaken { call }));
            slots.push((call, slot));
        }
        slots
    }

    /// Has a call wait for its places; that it has them is a letter.
    pub(super) fn queue(&mut self, call: CallId) {
        let pools = pools_of(&self.state, call);
        let stop = CancellationToken::new();
        let number = self.note_running(JobKey::Queue { call }, stop.clone());
        let (queued, mailbox) = (self.shared.pools.queue(call, &pools), self.mailbox.clone());
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            let slot = tokio::select! {
                slot = queued => Some(slot),
                () = stop.cancelled() => None,
                // A node that goes away starts nothing, and need not wait for this.
                () = shared.drained() => None,
            };
            // The task may be gone: then the next owner queues the call again.
            mailbox.send(Letter::Slot { call, number, slot }).await.unwrap_or_default();
        });
    }

    /// Starts a call that has its places. They are given back if it does not start any more.
    pub(super) async fn leave_queue(
        &mut self,
        call: CallId,
        number: u64,
        slot: Option<Slot>,
    ) -> Result<(), InputError> {
        let is_current = self.end_running(JobKey::Queue { call }, number);
        let (Some(slot), true) = (slot, is_current) else { return Ok(()) };
        self.slots.insert(call, slot);
        let stepped = self.step_unasked(&Input::SlotTaken(SlotTaken { call })).await;
        self.slots.remove(&call);
        stepped
    }

    /// Calls that were stopped, or are asked about anew, wait for no place.
    pub(super) fn leave_queues(&self) {
        if self.running.is_empty() {
            return;
        }
        let state = Arc::clone(&self.state);
        let is_queued = |call: CallId| {
            let call = state.as_open().and_then(|open| open.call(call));
            call.is_some_and(|call| call.phase.is_queued())
        };
        self.stop(|key| matches!(key, JobKey::Queue { call } if !is_queued(*call)));
    }
}

fn queued_call(effect: &Effect) -> Option<CallId> {
    match effect {
        Effect::Queue { call } => Some(*call),
        _ => None,
    }
}

fn pools_of(state: &State, call: CallId) -> Vec<Pool> {
    let call = state.as_open().and_then(|open| open.call(call));
    call.map(|call| call.contract.pools.clone()).unwrap_or_default()
}
