//! The stored events: what happened, in the past tense.
//!
//! The log is the truth and these are its words. They are only ever added to: a field added
//! later has a default, a variant is never removed or renamed, and `tests/golden` holds logs of
//! every version that must still replay.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::admission::{Permit, Rejection};
use super::child::{Delegation, Parent};
use super::config::Config;
use super::goal::Goal;
use super::report::Report;
use super::summary::Summary;
use super::suspension::{Decided, Preview, SuspendReason, SuspensionKind};
use super::usage::{ContextUse, Usage};
use super::wake::{FollowUp, Learning, Wake};
use crate::actor::Actor;
use crate::arguments::Arguments;
use crate::digest::Digest;
use crate::id::{CallId, GrantId, MessageId, ProviderCallId, ResolutionId, SessionId, WakeId};
use crate::name::ToolName;
use crate::outcome::{ContentBlock, Failure, Outcome};
use crate::permission::{Derivation, StandingGrant};
use crate::time::Timestamp;
use crate::tool::Contract;

/// Something that happened in a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Event {
    /// The session exists.
    #[serde(rename = "session.opened")]
    SessionOpened {
        /// Its id.
        session: SessionId,
        /// How it behaves.
        config: Arc<Config>,
        /// Who opened it.
        by: Actor,
        /// The session for which it works, when it is a child.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<Parent>,
    },
    /// Someone changed how it behaves.
    #[serde(rename = "session.reconfigured")]
    SessionReconfigured {
        /// How it behaves from here on.
        config: Arc<Config>,
        /// Who changed it.
        by: Actor,
    },
    /// Someone stopped what was under way.
    #[serde(rename = "session.interrupted")]
    SessionInterrupted {
        /// Who.
        by: Actor,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
        /// What brought it about.
        #[serde(default)]
        cause: InterruptCause,
    },
    /// Someone asked the session to end; what runs is being stopped.
    #[serde(rename = "session.ending")]
    SessionEnding {
        /// Who.
        by: Actor,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// Nothing more happens here.
    #[serde(rename = "session.ended")]
    SessionEnded {},
    /// The store was put back from a backup: what happened after the backup is not known.
    #[serde(rename = "session.restored")]
    SessionRestored {
        /// Who put it back.
        by: Actor,
        /// When the backup was made, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        backed_up_at: Option<Timestamp>,
    },
    /// A message came in.
    #[serde(rename = "message.received")]
    MessageReceived {
        /// Its id.
        message: MessageId,
        /// Who sent it.
        from: Actor,
        /// What it says.
        content: Vec<ContentBlock>,
    },
    /// A turn began; the named messages are delivered with it.
    #[serde(rename = "turn.started")]
    TurnStarted {
        /// Its number, from 1.
        turn: u32,
        /// The messages that it answers.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        messages: Vec<MessageId>,
        /// The wakes that it answers.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        wakes: Vec<WakeId>,
    },
    /// The model is asked again: the process that asked died, or the answer broke off midway.
    #[serde(rename = "turn.retried")]
    TurnRetried {
        /// The turn.
        turn: u32,
        /// Which attempt begins.
        attempt: u32,
        /// How the answer broke off; `None` if the process died.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<Failure>,
    },
    /// The model answered.
    #[serde(rename = "turn.answered")]
    TurnAnswered {
        /// The turn.
        turn: u32,
        /// What it says.
        content: Vec<ContentBlock>,
        /// The tools it was offered, when they differ from the turn before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        advertised: Option<Vec<ToolName>>,
        /// Why they are fewer than the session may use.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        narrowed: Vec<Narrowed>,
        /// What it cost.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        /// What its provider wants to be shown again as it was, by the vendor's name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_meta: Option<Value>,
        /// How much of its budget what it was shown took.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<ContextUse>,
    },
    /// What stands for the earlier turns from here on, in what the model is shown.
    #[serde(rename = "context.summarised")]
    ContextSummarised {
        /// The summary.
        summary: Arc<Summary>,
    },
    /// The model said how its work goes on.
    #[serde(rename = "loop.directed")]
    LoopDirected {
        /// The turn.
        turn: u32,
        /// Where it stands, in its words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        /// What became of its wish to go on by itself.
        follow_up: FollowUp,
    },
    /// The session will go on by itself.
    #[serde(rename = "wake.queued")]
    WakeQueued {
        /// When and what for.
        wake: Wake,
    },
    /// The time of a wake has come; the next turn answers it.
    #[serde(rename = "wake.due")]
    WakeFellDue {
        /// The wake.
        wake: WakeId,
    },
    /// A wake will not be.
    #[serde(rename = "wake.cancelled")]
    WakeCancelled {
        /// The wake.
        wake: WakeId,
        /// Who saw to that.
        by: Actor,
    },
    /// The model has learnt something.
    #[serde(rename = "learning.captured")]
    LearningCaptured {
        /// What.
        learning: Learning,
    },
    /// The turn is over.
    #[serde(rename = "turn.ended")]
    TurnEnded {
        /// The turn.
        turn: u32,
        /// Why.
        ending: TurnEnding,
    },
    /// A call of a known tool with sound arguments was proposed.
    #[serde(rename = "call.proposed")]
    CallProposed {
        /// Its id.
        call: CallId,
        /// The provider's id for it.
        provider_id: ProviderCallId,
        /// Whether that id was seen before in this turn.
        #[serde(default, skip_serializing_if = "Seen::is_first")]
        provider_id_seen: Seen,
        /// The tool's terms.
        contract: Arc<Contract>,
        /// The arguments.
        arguments: Arguments,
        /// What the sources of permission say.
        derivation: Derivation,
    },
    /// A proposed call will not run. This is its outcome.
    #[serde(rename = "call.rejected")]
    CallRejected {
        /// Its id.
        call: CallId,
        /// The provider's id for it.
        provider_id: ProviderCallId,
        /// The name that was asked for; possibly no tool's.
        name: String,
        /// Why.
        rejection: Rejection,
    },
    /// A call may run as it is.
    #[serde(rename = "call.admitted")]
    CallAdmitted {
        /// The call.
        call: CallId,
        /// What lets it run.
        permit: Permit,
    },
    /// What a call would do is being found out, before anyone is asked.
    #[serde(rename = "call.previewing")]
    CallPreviewing {
        /// The call.
        call: CallId,
        /// Why someone will then be asked.
        #[serde(default = "asked", skip_serializing_if = "is_asked")]
        reason: SuspendReason,
    },
    /// A call waits for someone outside.
    #[serde(rename = "call.suspended")]
    CallSuspended {
        /// The call.
        call: CallId,
        /// Which wait of this call it is, from 1.
        round: u32,
        /// What is waited for.
        kind: SuspensionKind,
        /// When the wait ends by itself.
        expires_at: Timestamp,
        /// Why it waits.
        reason: SuspendReason,
        /// What the call would do, when the tool can tell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        preview: Option<Preview>,
    },
    /// A call's work is given to a child, which is opened with this.
    #[serde(rename = "call.delegated")]
    CallDelegated {
        /// The call.
        call: CallId,
        /// The attempt that gave it away.
        attempt: u32,
        /// What the child is to do.
        delegation: Arc<Delegation>,
    },
    /// A child that nobody waits for any more is stopped.
    #[serde(rename = "child.stopped")]
    ChildStopped {
        /// The child.
        child: SessionId,
    },
    /// The parent knows what came of a turn's run.
    #[serde(rename = "parent.told")]
    ParentTold {
        /// The turn that ended the run.
        turn: u32,
    },
    /// A session that works below this one tells where it stands.
    #[serde(rename = "child.reported")]
    ChildReported {
        /// What it tells.
        report: Arc<Report>,
    },
    /// One of the people that a call needs said yes; it waits for another.
    #[serde(rename = "call.endorsed")]
    CallEndorsed {
        /// The call.
        call: CallId,
        /// Which wait.
        round: u32,
        /// The resolver's id for it.
        resolution: ResolutionId,
        /// Who.
        by: Actor,
        /// What they add.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// A wait ended.
    #[serde(rename = "call.resolved")]
    CallResolved {
        /// The call.
        call: CallId,
        /// Which wait.
        round: u32,
        /// The resolver's id for it; none when Haft ended the wait.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resolution: Option<ResolutionId>,
        /// Who ended it.
        by: Actor,
        /// How.
        decision: Decided,
    },
    /// A call may run and waits until a pool of its tool has room.
    #[serde(rename = "call.queued")]
    CallQueued {
        /// The call.
        call: CallId,
    },
    /// An attempt began.
    #[serde(rename = "call.started")]
    CallStarted {
        /// The call.
        call: CallId,
        /// Which attempt, from 1.
        attempt: u32,
        /// The digest of the arguments that run.
        digest: Digest,
        /// Why it began.
        cause: StartCause,
    },
    /// An attempt failed, and another will be made.
    #[serde(rename = "call.retry_scheduled")]
    CallRetryScheduled {
        /// The call.
        call: CallId,
        /// The attempt that failed.
        attempt: u32,
        /// How it failed.
        failure: Failure,
        /// When the next one is due.
        due: Timestamp,
    },
    /// An attempt ended without a result; whether it took effect is not known.
    #[serde(rename = "call.interrupted")]
    CallInterrupted {
        /// The call.
        call: CallId,
        /// The attempt.
        attempt: u32,
        /// What is done about it.
        plan: RecoveryPlan,
        /// How it ended; `None` if its process died.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<Failure>,
        /// Whether its code may still be running, because it did not stop when it was told to.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        may_still_run: bool,
    },
    /// The tool's verify hook said what became of an interrupted attempt.
    #[serde(rename = "call.verified")]
    CallVerified {
        /// The call.
        call: CallId,
        /// The attempt.
        attempt: u32,
        /// What became of it.
        finding: VerifyFinding,
    },
    /// A running attempt was asked to stop.
    #[serde(rename = "call.cancelling")]
    CallCancelling {
        /// The call.
        call: CallId,
        /// The attempt.
        attempt: u32,
    },
    /// The tool changed while the call waited; it is asked again under the new terms.
    #[serde(rename = "call.redefined")]
    CallRedefined {
        /// The call.
        call: CallId,
        /// The new terms.
        contract: Arc<Contract>,
        /// What changed, for the approver.
        changes: String,
    },
    /// A call in doubt may not be run again: its tool changed in a way that forbids it.
    #[serde(rename = "call.barred")]
    CallBarred {
        /// The call.
        call: CallId,
        /// Why.
        why: String,
    },
    /// A call ended. This is its outcome.
    #[serde(rename = "call.finished")]
    CallFinished {
        /// The outcome.
        outcome: Outcome,
    },
    /// The provider gave a result for a call that nobody made; it changes nothing.
    #[serde(rename = "provider.result_ignored")]
    ProviderResultIgnored {
        /// The id it was for.
        provider_id: ProviderCallId,
    },
    /// Someone said what the session is to achieve.
    #[serde(rename = "goal.set")]
    GoalSet {
        /// What.
        goal: Goal,
        /// Who.
        by: Actor,
    },
    /// Someone gave a standing permission.
    #[serde(rename = "grant.added")]
    GrantAdded {
        /// The grant.
        grant: StandingGrant,
    },
    /// Someone took a standing permission back.
    #[serde(rename = "grant.revoked")]
    GrantRevoked {
        /// The grant.
        grant: GrantId,
        /// Who.
        by: Actor,
    },
}

/// Why a turn was offered less than it might have been.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Narrowed {
    /// What chose.
    pub by: String,
    /// Why, in its words.
    pub reason: String,
    /// How many tools it left out.
    pub left_out: u64,
}

fn asked() -> SuspendReason {
    SuspendReason::Asked
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_asked(reason: &SuspendReason) -> bool {
    *reason == SuspendReason::Asked
}

impl Event {
    /// Returns the call that it is about, if it is about one.
    pub const fn call(&self) -> Option<CallId> {
        match self {
            Self::CallProposed { call, .. }
            | Self::CallRejected { call, .. }
            | Self::CallAdmitted { call, .. }
            | Self::CallPreviewing { call, .. }
            | Self::CallSuspended { call, .. }
            | Self::CallEndorsed { call, .. }
            | Self::CallResolved { call, .. }
            | Self::CallQueued { call }
            | Self::CallStarted { call, .. }
            | Self::CallRetryScheduled { call, .. }
            | Self::CallInterrupted { call, .. }
            | Self::CallVerified { call, .. }
            | Self::CallCancelling { call, .. }
            | Self::CallRedefined { call, .. }
            | Self::CallBarred { call, .. }
            | Self::CallDelegated { call, .. } => Some(*call),
            Self::CallFinished { outcome } => Some(outcome.call),
            Self::SessionOpened { .. }
            | Self::SessionReconfigured { .. }
            | Self::SessionInterrupted { .. }
            | Self::SessionEnding { .. }
            | Self::SessionEnded {}
            | Self::SessionRestored { .. }
            | Self::MessageReceived { .. }
            | Self::TurnStarted { .. }
            | Self::TurnRetried { .. }
            | Self::TurnAnswered { .. }
            | Self::TurnEnded { .. }
            | Self::ContextSummarised { .. }
            | Self::LoopDirected { .. }
            | Self::WakeQueued { .. }
            | Self::WakeFellDue { .. }
            | Self::WakeCancelled { .. }
            | Self::LearningCaptured { .. }
            | Self::ChildStopped { .. }
            | Self::ParentTold { .. }
            | Self::ChildReported { .. }
            | Self::ProviderResultIgnored { .. }
            | Self::GoalSet { .. }
            | Self::GrantAdded { .. }
            | Self::GrantRevoked { .. } => None,
        }
    }

    /// Returns the stable name of the event, as it is stored.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::SessionOpened { .. } => "session.opened",
            Self::SessionReconfigured { .. } => "session.reconfigured",
            Self::SessionInterrupted { .. } => "session.interrupted",
            Self::SessionEnding { .. } => "session.ending",
            Self::SessionEnded {} => "session.ended",
            Self::SessionRestored { .. } => "session.restored",
            Self::MessageReceived { .. } => "message.received",
            Self::TurnStarted { .. } => "turn.started",
            Self::TurnRetried { .. } => "turn.retried",
            Self::TurnAnswered { .. } => "turn.answered",
            Self::TurnEnded { .. } => "turn.ended",
            Self::ContextSummarised { .. } => "context.summarised",
            Self::LoopDirected { .. } => "loop.directed",
            Self::WakeQueued { .. } => "wake.queued",
            Self::WakeFellDue { .. } => "wake.due",
            Self::WakeCancelled { .. } => "wake.cancelled",
            Self::LearningCaptured { .. } => "learning.captured",
            Self::CallDelegated { .. } => "call.delegated",
            Self::ChildStopped { .. } => "child.stopped",
            Self::ParentTold { .. } => "parent.told",
            Self::ChildReported { .. } => "child.reported",
            Self::CallProposed { .. } => "call.proposed",
            Self::CallRejected { .. } => "call.rejected",
            Self::CallAdmitted { .. } => "call.admitted",
            Self::CallPreviewing { .. } => "call.previewing",
            Self::CallSuspended { .. } => "call.suspended",
            Self::CallEndorsed { .. } => "call.endorsed",
            Self::CallResolved { .. } => "call.resolved",
            Self::CallQueued { .. } => "call.queued",
            Self::CallStarted { .. } => "call.started",
            Self::CallRetryScheduled { .. } => "call.retry_scheduled",
            Self::CallInterrupted { .. } => "call.interrupted",
            Self::CallVerified { .. } => "call.verified",
            Self::CallCancelling { .. } => "call.cancelling",
            Self::CallRedefined { .. } => "call.redefined",
            Self::CallBarred { .. } => "call.barred",
            Self::CallFinished { .. } => "call.finished",
            Self::ProviderResultIgnored { .. } => "provider.result_ignored",
            Self::GoalSet { .. } => "goal.set",
            Self::GrantAdded { .. } => "grant.added",
            Self::GrantRevoked { .. } => "grant.revoked",
        }
    }
}

/// Whether something is met for the first time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    /// For the first time.
    #[default]
    First,
    /// Again.
    Again,
}

impl Seen {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    fn is_first(&self) -> bool {
        *self == Self::First
    }
}

/// What brought an interrupt about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptCause {
    /// Someone asked for it.
    #[default]
    Asked,
    /// A message that steers.
    Message,
}

/// Why a turn is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum TurnEnding {
    /// The model said its last word.
    Completed,
    /// Every call has its outcome, and the caller decides what is next.
    Settled,
    /// A call ended the run.
    Terminal,
    /// A limit was reached.
    Limit {
        /// Which.
        limit: String,
    },
    /// Someone stopped it.
    Interrupted,
    /// The model could not be asked.
    Failed {
        /// Why.
        failure: Failure,
    },
}

/// Why an attempt began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartCause {
    /// It is the first.
    First,
    /// The one before failed in a way worth repeating.
    Retry,
    /// The one before was interrupted, and repeating it is safe.
    Recovery,
    /// A person, or the tool's verify hook, says that the one before did not take effect.
    Settled,
}

/// What is done about an interrupted attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryPlan {
    /// It runs again; the key is the same.
    Rerun,
    /// The tool's verify hook is asked.
    Verify,
    /// A person is asked.
    Ask,
    /// Nothing more is done, and its outcome says what is known: someone had already stopped the
    /// session, or the tool only reads and is not tried again.
    Report,
}

/// What a verify hook found, without what the call gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerifyFinding {
    /// It took effect.
    Applied,
    /// It did not.
    Absent,
    /// It cannot be told.
    Unknown,
}
