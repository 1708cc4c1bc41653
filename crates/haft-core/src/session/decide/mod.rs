//! `decide`: what comes of an input. One file per family of transitions.

mod advance;
mod attempt;
mod child;
mod grant;
mod model;
mod propose;
mod recover;
mod redefine;
mod resolve;
mod restore;
mod session;
mod stop;
mod wake;

use super::effect::{Decision, Effect, Reply};
use super::event::Event;
use super::evolve::evolve;
use super::input::Input;
use super::refusal::{Refusal, Stale};
use super::state::{Call, Open, Phase, State};
use super::suspension::SuspensionKind;
use crate::id::CallId;
use crate::permission::GrantUse;
use crate::time::Timestamp;

/// Decides what comes of an input: events to append, an answer, and effects, in this order.
///
/// # Errors
///
/// A [`Refusal`] when the input changes nothing.
pub fn decide(state: &State, now: Timestamp, input: Input) -> Result<Decision, Refusal> {
    let mut draft = Draft::new(state, now);
    draft.looks_anew = matches!(input, Input::Revived | Input::Woken);
    draft.take(input)?;
    draft.advance()?;
    draft.report_up(state);
    Ok(draft.into())
}

/// Decides what comes of an input on a node that does not own the session: the input is recorded
/// and answered, and whoever owns the session goes on from there when [`Input::Woken`].
///
/// So a resolution needs no owner, and an acknowledged one is durable wherever it came in.
///
/// # Errors
///
/// As [`decide`], and [`Refusal::NeedsOwner`] for an input that only the owner can act upon.
pub fn accept(state: &State, now: Timestamp, input: Input) -> Result<Decision, Refusal> {
    if !input.is_for_anyone() && !settles_doubt(state, &input) {
        return Err(Refusal::NeedsOwner);
    }
    let mut draft = Draft::new(state, now);
    draft.take(input)?;
    draft.leave_stopping_to_the_owner();
    if draft.effects.is_empty() { Ok(draft.into()) } else { Err(Refusal::NeedsOwner) }
}

/// Decides what comes of an input on a node that owns the session and is about to let it go:
/// what happened is recorded, and nothing new is started. Whoever owns the session next goes on
/// from there when it is [`Input::Revived`].
///
/// The effects are those of the input itself; one that is not performed is recovered like any
/// other that was interrupted.
///
/// # Errors
///
/// As [`decide`].
pub fn note(state: &State, now: Timestamp, input: Input) -> Result<Decision, Refusal> {
    // It would start the call: that is for the next owner, who queues it again.
    if matches!(input, Input::SlotTaken(_)) {
        return Err(Refusal::Stale(Stale::NotAwaiting));
    }
    let mut draft = Draft::new(state, now);
    draft.take(input)?;
    Ok(draft.into())
}

/// Returns whether an input is the late word of a process that was believed dead, about a call of
/// which nobody knows the end: a person need not decide what is known. Every attempt has a number
/// of its own, so that once the call runs again the word is about another attempt.
fn settles_doubt(state: &State, input: &Input) -> bool {
    let Input::AttemptEnded(ended) = input else { return false };
    let call = state.as_open().and_then(|open| open.call(ended.call));
    let in_doubt = |call: &Call| match &call.phase {
        Phase::Waiting(wait) => wait.kind == SuspensionKind::Settlement,
        _ => false,
    };
    call.is_some_and(in_doubt)
}

/// A decision in the making: the state already includes the events so far.
struct Draft {
    now: Timestamp,
    state: State,
    events: Vec<Event>,
    effects: Vec<Effect>,
    reply: Reply,
    /// What this decision has taken from grants that live outside the session: the state does
    /// not know them, so calls of one batch must not each see them whole.
    spent_outside: Vec<GrantUse>,
    /// Whether the session is looked at by someone who may have missed what went before.
    looks_anew: bool,
}

impl From<Draft> for Decision {
    fn from(draft: Draft) -> Self {
        let Draft { state, events, effects, reply, .. } = draft;
        Self { events, reply, effects, state }
    }
}

impl Draft {
    fn new(state: &State, now: Timestamp) -> Self {
        let (events, effects) = (Vec::new(), Vec::new());
        let (state, spent_outside) = (state.clone(), Vec::new());
        let (reply, looks_anew) = (Reply::Accepted, false);
        Self { now, state, events, effects, reply, spent_outside, looks_anew }
    }

    fn take(&mut self, input: Input) -> Result<(), Refusal> {
        match input {
            Input::Opened(opened) => self.open_session(opened),
            Input::MessageArrived(message) => self.take_message(message),
            Input::ModelAnswered(answer) => self.take_answer(answer),
            Input::ModelFailed(failure) => self.take_model_failure(failure),
            Input::ContextSummarised(summarised) => self.take_summary(summarised),
            Input::WakeQueued(queued) => self.take_wake(queued),
            Input::WakeCancelled(cancelled) => self.cancel_wake(cancelled),
            Input::ChildOpened(opened) => self.open_child(opened),
            Input::ChildStopped(stopped) => self.note_child_stopped(&stopped),
            Input::ParentTold(told) => self.note_parent_told(&told),
            Input::ChildReported(report) => self.take_report(report),
            Input::RootTold => self.require_open().map(drop),
            Input::CallsProposed(proposed) => self.take_proposals(proposed),
            Input::Previewed(previewed) => self.take_preview(previewed),
            Input::SlotTaken(taken) => self.take_slot(&taken),
            Input::AttemptEnded(ended) => self.take_attempt(ended),
            Input::Verified(verified) => self.take_verification(verified),
            Input::RetryDue(due) => self.take_retry(&due),
            Input::Resolved(resolved) => self.take_resolution(resolved),
            Input::Expired(expired) => self.expire(&expired),
            Input::ClientGone(gone) => self.miss_client(&gone),
            Input::CallCancelled(cancelled) => self.cancel_call(&cancelled),
            Input::ToolChanged(changed) => self.change_tool(changed),
            Input::Interrupted(interrupted) => self.interrupt(interrupted),
            Input::Reconfigured(reconfigured) => self.reconfigure(reconfigured),
            Input::GoalSet(set) => self.set_goal(set),
            Input::Granted(granted) => self.take_grant(granted.grant),
            Input::GrantOffered(offered) => self.take_offer(&offered),
            Input::GrantRevoked(revoked) => self.revoke_grant(revoked),
            Input::Ended(ended) => self.end_session(ended),
            Input::TurnAsked(asked) => self.ask_model_again(&asked),
            Input::Restored(restored) => self.restore(restored),
            Input::Revived => self.recover(),
            Input::Woken => self.stop_again(),
        }
    }

    fn emit(&mut self, event: Event) -> Result<(), Refusal> {
        let state = std::mem::take(&mut self.state);
        self.state = evolve(state, self.now, &event)?;
        self.events.push(event);
        Ok(())
    }

    fn require_open(&self) -> Result<&Open, Refusal> {
        match &self.state {
            State::Open(open) => Ok(open),
            State::Unopened => Err(Refusal::NotOpen),
            State::Ended { .. } => Err(Refusal::Ended),
        }
    }

    fn call(&self, id: CallId) -> Result<&Call, Refusal> {
        self.require_open()?.call(id).ok_or(Refusal::Stale(Stale::Unknown))
    }

    /// Returns the ids of the calls for which something holds, so that each can be moved.
    fn calls_where(&self, holds: impl Fn(&Call) -> bool) -> Vec<CallId> {
        let open = self.state.as_open();
        let calls = open.into_iter().flat_map(Open::calls);
        calls.filter(|call| holds(call)).map(|call| call.id).collect()
    }
}
