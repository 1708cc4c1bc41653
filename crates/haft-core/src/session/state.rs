//! The state of a session: small, bounded, and a pure fold over its events.
//!
//! Only the current turn's calls are kept; what earlier turns said and did is in the log. So a
//! session's state, and the cost of reviving it, do not grow with its history.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::admission::Permit;
use super::child::{Awaits, Delegation, Parent};
use super::config::Config;
use super::event::StartCause;
use super::goal::ActiveGoal;
use super::report::{Heard, Report, Standing};
use super::spend::Spent;
use super::summary::Summary;
use super::suspension::{DecidedKind, SuspendReason, Suspension, SuspensionKind};
use super::wake::Wake;
use crate::actor::Actor;
use crate::arguments::Arguments;
use crate::id::{CallId, MessageId, ProviderCallId, ResolutionId, SessionId};
use crate::name::ToolName;
use crate::outcome::{ErrorClass, LoopEffect};
use crate::permission::StandingGrant;
use crate::time::{Millis, Timestamp};
use crate::tool::{Contract, Price};

/// Where a session stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "a session is open for as long as its state is held")]
pub enum State {
    /// It does not exist yet.
    #[default]
    Unopened,
    /// It is open.
    Open(Open),
    /// It is over.
    Ended {
        /// Which session it was.
        session: SessionId,
    },
}

/// An open session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Open {
    /// Its id.
    pub session: SessionId,
    /// Who opened it, and on whose behalf its calls run unless someone else approves them.
    pub opened_by: Actor,
    /// How it behaves.
    pub config: Arc<Config>,
    /// What it is doing.
    pub activity: Activity,
    /// Whether it is being stopped.
    pub stopping: Stopping,
    /// The number of the latest turn; 0 before the first.
    pub turn: u32,
    pub(super) turns_in_run: u32,
    pub(super) calls_in_run: u32,
    /// What the model asked for in this turn that cannot be called, when that fails the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) misuse: Option<String>,
    pub(super) calls: Vec<Arc<Call>>,
    /// The newest calls that have left the turn, so that whoever comes late is told what became
    /// of them, and no id is used again at once.
    pub(super) recent: Vec<RecentCall>,
    /// Messages that no turn has taken up yet.
    pub inbox: Vec<MessageId>,
    /// The newest messages, so that one sent again is not taken up again.
    pub(super) heard: Vec<MessageId>,
    pub(super) advertised: Option<Arc<BTreeSet<ToolName>>>,
    pub(super) grants: Vec<StandingGrant>,
    /// What it is to achieve, if anyone said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<Arc<ActiveGoal>>,
    /// The tokens of the current run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) tokens_in_run: u64,
    #[serde(default, skip_serializing_if = "is_none_yet")]
    pub(super) retries_in_run: u32,
    #[serde(default, skip_serializing_if = "Spent::is_nothing")]
    pub(super) spent: Spent,
    /// How long the current run has been at work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) clock: Option<RunClock>,
    /// What stands for the earlier turns, in what the model is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Arc<Summary>>,
    /// The times at which it goes on by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wakes: Vec<Wake>,
    /// The wakes whose time has come and that no turn has taken up yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub due: Vec<Wake>,
    /// How often it has gone on by itself since someone last spoke.
    #[serde(default, skip_serializing_if = "is_none_yet")]
    pub(super) follow_ups: u32,
    /// The session for which it works, when it is a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The turn that ended a run of which the parent has not been told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) owed: Option<u32>,
    /// Children that nobody waits for any more and that are not stopped yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) abandoned: Vec<SessionId>,
    /// What those that work below it told last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) reported: Vec<Heard>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_none_yet(n: &u32) -> bool {
    *n == 0
}

/// How long a run has been at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunClock {
    /// The time of its latest event.
    pub(super) at: Timestamp,
    /// How long it was at work until then.
    pub(super) worked: Millis,
}

/// What an open session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// Nothing.
    Idle,
    /// The model is being asked.
    Thinking {
        /// For which time in this turn.
        attempt: u32,
    },
    /// Calls are under way.
    Acting,
}

/// Whether what is under way is being stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopping {
    /// It is not.
    #[default]
    No,
    /// The turn is.
    Turn,
    /// The session is.
    Session,
}

/// A call of the current turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Its id, which is also its key for whoever recognises keys.
    pub id: CallId,
    /// The provider's id for it.
    pub provider_id: ProviderCallId,
    /// The tool's terms.
    pub contract: Arc<Contract>,
    /// The arguments that run.
    pub arguments: Arguments,
    /// Where it stands.
    pub phase: Phase,
    /// How often it has waited.
    pub rounds: u32,
    /// How often it was started.
    pub attempts: u32,
    /// How often it ended without a result, by a crash or otherwise.
    pub recoveries: u32,
    /// The decisions about its waits, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decided: Vec<DecidedBy>,
    /// The child that does its work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<Arc<Delegation>>,
    /// Why it may not run again, when its tool has changed in a way that forbids it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub barred: Option<String>,
    /// How its latest attempt ended, when that left open whether it took effect. `None` if its
    /// process died, or nothing is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_doubt_because: Option<String>,
    /// What it is counted for towards the limits on spending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) counted: Option<Price>,
}

/// A call that has left the turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RecentCall {
    pub(super) id: CallId,
    pub(super) at: Timestamp,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) decided: Vec<DecidedBy>,
}

/// How many calls that left the turn, and how many messages, are remembered.
pub(super) const RECENT_MAX: usize = 32;

/// Who decided what about a call's latest wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecidedBy {
    /// The resolver's id for it.
    pub resolution: Option<ResolutionId>,
    /// Who.
    pub by: Actor,
    /// What.
    pub kind: DecidedKind,
    /// When.
    pub at: Timestamp,
}

/// Where a call stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It has just been proposed; never at rest.
    Proposed,
    /// What it would do is being found out.
    Previewing {
        /// Why someone will then be asked.
        reason: SuspendReason,
    },
    /// It waits for someone outside.
    Waiting(Suspension),
    /// It may run, and waits for its turn among the others or for a retry's time.
    Ready {
        /// What lets it run.
        permit: Permit,
        /// Why the next attempt begins.
        cause: StartCause,
        /// Not before this.
        due: Option<Timestamp>,
        /// Since when it waits for room in the pools of its tool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        queued_at: Option<Timestamp>,
    },
    /// It runs.
    Running {
        /// What lets it run.
        permit: Permit,
        /// Which attempt.
        attempt: u32,
        /// Since when.
        started_at: Timestamp,
    },
    /// Its verify hook is asked what became of an interrupted attempt.
    Verifying {
        /// What let it run.
        permit: Permit,
        /// Which attempt.
        attempt: u32,
        /// Since when the attempt had run.
        started_at: Timestamp,
        /// What is done if it did not take effect.
        #[serde(default, skip_serializing_if = "OnAbsent::is_default")]
        on_absent: OnAbsent,
    },
    /// It runs and was asked to stop.
    Cancelling {
        /// Which attempt.
        attempt: u32,
        /// Since when.
        started_at: Timestamp,
        /// What let it run. States that were stored by earlier versions do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        permit: Option<Permit>,
    },
    /// The provider runs it.
    AtProvider {
        /// Since when.
        since: Timestamp,
    },
    /// It has its outcome.
    Settled {
        /// When.
        at: Timestamp,
        /// What the outcome means for the run.
        effect: LoopEffect,
        /// How it failed, if it did.
        failed: Option<ErrorClass>,
    },
}

/// What is done about a call whose verify hook says that an attempt did not take effect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnAbsent {
    /// It runs again.
    #[default]
    RunAgain,
    /// It is over, because someone told it to stop.
    Cancel,
    /// A person is asked: the attempt may still be running and take effect later.
    Ask,
}

impl OnAbsent {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl State {
    /// Returns the open session, if it is open.
    pub fn as_open(&self) -> Option<&Open> {
        match self {
            Self::Open(open) => Some(open),
            Self::Unopened | Self::Ended { .. } => None,
        }
    }
}

impl Open {
    /// Returns a call of the current turn.
    pub fn call(&self, id: CallId) -> Option<&Call> {
        self.calls.iter().find(|call| call.id == id).map(|call| &**call)
    }

    /// Returns the turn with which the run began; along with the session it names the run.
    pub fn first_turn_of_run(&self) -> u32 {
        (self.turn + 1).saturating_sub(self.turns_in_run)
    }

    /// Returns the current turn's calls that were admitted or wait, in the order of proposal.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().map(|call| &**call)
    }

    /// Returns the calls that wait for someone outside: the persisted subset of document 004. A
    /// call that waits for a sub-agent waits for nobody outside.
    pub fn waiting(&self) -> impl Iterator<Item = (&Call, &Suspension)> {
        self.calls().filter_map(|call| match &call.phase {
            Phase::Waiting(suspension) if suspension.kind != SuspensionKind::Child => {
                Some((call, suspension))
            }
            _ => None,
        })
    }

    /// Returns the calls that run somewhere.
    pub fn in_flight(&self) -> impl Iterator<Item = &Call> {
        self.calls().filter(|call| call.phase.is_in_flight())
    }

    /// Returns the standing grants of the session.
    pub fn grants(&self) -> &[StandingGrant] {
        &self.grants
    }

    /// Returns how many tokens the current run has taken.
    pub fn tokens_in_run(&self) -> u64 {
        self.tokens_in_run
    }

    /// Returns how long the current run has been at work, as of its latest event.
    pub fn worked(&self) -> Millis {
        self.clock.map_or(Millis(0), |clock| clock.worked)
    }

    /// Returns the session at the top: itself, unless it is a child.
    pub fn root(&self) -> SessionId {
        self.parent.map_or(self.session, |parent| parent.root)
    }

    /// Returns whether nothing is under way, and its parent, if it has one, knows how that ended.
    pub fn is_at_rest(&self) -> bool {
        self.activity == Activity::Idle && self.owed.is_none()
    }

    /// Returns whether a session that works below it waits for someone outside.
    pub fn is_asked_below(&self) -> bool {
        self.reported.iter().any(|heard| matches!(heard.standing, Standing::Asking(_)))
    }

    /// Remembers what a session below told. Of those at rest only the newest are remembered: of
    /// the others there are as many as there is work.
    pub(super) fn hear_report(&mut self, report: &Report) {
        self.reported.retain(|heard| heard.child != report.child);
        let Report { child, seq, word, .. } = report;
        self.reported.push(Heard { child: *child, seq: *seq, standing: word.standing() });
        let is_done = |heard: &Heard| heard.standing.is_done();
        if self.reported.iter().filter(|heard| is_done(heard)).count() > RECENT_MAX
            && let Some(oldest) = self.reported.iter().position(is_done)
        {
            self.reported.remove(oldest);
        }
    }

    /// Returns whether a summary may stand for the earlier turns while `turn` is being answered:
    /// it covers more than the one before, and nothing of the turn itself.
    pub fn takes(&self, summary: &Summary, turn: u32) -> bool {
        let before = self.summary.as_ref().map_or(0, |summary| summary.through_turn);
        let covers = summary.through_turn > before && summary.through_turn < turn;
        covers && (1..=Summary::TEXT_MAX).contains(&summary.text.len())
    }

    /// Returns whether nothing goes on before someone outside has spoken.
    pub(super) fn only_waits(&self) -> bool {
        let mut open = self.calls().filter(|call| call.phase.is_open()).peekable();
        let any = open.peek().is_some();
        any && self.activity == Activity::Acting
            && open.all(|call| matches!(call.phase, Phase::Waiting(_)))
    }

    /// Takes a message into the inbox and remembers it for a while.
    pub(super) fn hear(&mut self, message: MessageId) {
        self.inbox.push(message);
        let excess = (self.heard.len() + 1).saturating_sub(RECENT_MAX);
        self.heard.drain(..excess);
        self.heard.push(message);
    }

    /// Takes a settled call out of the turn and remembers it for a while.
    pub(super) fn forget(&mut self, place: usize) {
        let call = self.calls.remove(place);
        let Phase::Settled { at, .. } = call.phase else { return };
        let excess = (self.recent.len() + 1).saturating_sub(RECENT_MAX);
        self.recent.drain(..excess);
        self.recent.push(RecentCall { id: call.id, at, decided: call.decided.clone() });
    }

    pub(super) fn call_mut(&mut self, id: CallId) -> Option<&mut Call> {
        self.calls.iter_mut().find(|call| call.id == id).map(Arc::make_mut)
    }
}

impl Call {
    /// Returns whether it waits for its child's session to be opened, and for nobody.
    pub fn awaits_opening(&self) -> bool {
        let opening = |child: &Arc<Delegation>| matches!(child.awaits, Awaits::Opening { .. });
        let waits = match &self.phase {
            Phase::Waiting(wait) => wait.kind == SuspensionKind::Child,
            _ => false,
        };
        waits && self.child.as_ref().is_some_and(opening)
    }

    /// Returns who approved it last, if anyone did: it then runs on their behalf.
    pub fn approved_by(&self) -> Option<&Actor> {
        let approved = |decided: &&DecidedBy| decided.kind == DecidedKind::Approve;
        self.decided.iter().rev().find(approved).map(|decided| &decided.by)
    }

    pub(super) fn proposed(
        id: CallId,
        provider_id: &ProviderCallId,
        contract: &Arc<Contract>,
        arguments: &Arguments,
    ) -> Self {
        Self {
            id,
            provider_id: provider_id.clone(),
            contract: Arc::clone(contract),
            arguments: arguments.clone(),
            phase: Phase::Proposed,
            rounds: 0,
            attempts: 0,
            recoveries: 0,
            decided: Vec::new(),
            child: None,
            barred: None,
            in_doubt_because: None,
            counted: None,
        }
    }
}

impl Phase {
    /// A call that may run as soon as its turn comes.
    pub(super) fn ready(permit: Permit, cause: StartCause) -> Self {
        Self::Ready { permit, cause, due: None, queued_at: None }
    }

    /// Returns whether the call waits for room in the pools of its tool.
    pub fn is_queued(&self) -> bool {
        matches!(self, Self::Ready { queued_at: Some(_), .. })
    }

    /// Returns whether someone told the running attempt to stop.
    pub(super) fn was_cancelled(&self) -> bool {
        match self {
            Self::Cancelling { .. } => true,
            Self::Verifying { on_absent, .. } => *on_absent == OnAbsent::Cancel,
            Self::Proposed
            | Self::Previewing { .. }
            | Self::Waiting(_)
            | Self::Ready { .. }
            | Self::Running { .. }
            | Self::AtProvider { .. }
            | Self::Settled { .. } => false,
        }
    }

    /// Returns what let the attempt run that is under way.
    pub(super) fn permit(&self) -> Option<&Permit> {
        match self {
            Self::Running { permit, .. } | Self::Verifying { permit, .. } => Some(permit),
            Self::Cancelling { permit, .. } => permit.as_ref(),
            Self::Proposed
            | Self::Previewing { .. }
            | Self::Waiting(_)
            | Self::Ready { .. }
            | Self::AtProvider { .. }
            | Self::Settled { .. } => None,
        }
    }

    /// Returns whether the call has no outcome yet.
    pub fn is_open(&self) -> bool {
        !matches!(self, Self::Settled { .. })
    }

    /// Returns whether the call runs somewhere.
    pub fn is_in_flight(&self) -> bool {
        match self {
            Self::Running { .. }
            | Self::Verifying { .. }
            | Self::Cancelling { .. }
            | Self::AtProvider { .. } => true,
            Self::Proposed
            | Self::Previewing { .. }
            | Self::Waiting(_)
            | Self::Ready { .. }
            | Self::Settled { .. } => false,
        }
    }
}
