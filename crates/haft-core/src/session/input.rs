//! The inputs: everything that can happen to a session, as facts.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::child::{Delegation, Parent};
use super::config::Config;
use super::event::Narrowed;
use super::goal::Goal;
use super::report::Report;
use super::resolution::{Fit, Resolved};
use super::summary::Summary;
use super::suspension::Preview;
use super::usage::{ContextUse, Usage};
use super::wake::{Directive, Wake};
use crate::actor::Actor;
use crate::arguments::Arguments;
use crate::id::{CallId, GrantId, MessageId, ProviderCallId, SessionId, WakeId};
use crate::json;
use crate::name::ToolName;
use crate::outcome::{CallResult, ContentBlock, Directives, Failure, Output};
use crate::permission::{SourceReport, StandingGrant};
use crate::time::Timestamp;
use crate::tool::Contract;

/// Something that happened to a session.
#[derive(Debug, Clone)]
pub enum Input {
    /// Someone opens it.
    Opened(Opened),
    /// Someone says something.
    MessageArrived(MessageArrived),
    /// The model answered.
    ModelAnswered(ModelAnswered),
    /// The model could not be asked.
    ModelFailed(ModelFailed),
    /// Before the model is asked, what it would be shown is shortened.
    ContextSummarised(ContextSummarised),
    /// Someone wants the session to go on at a time.
    WakeQueued(WakeQueued),
    /// Someone wants a wake not to be.
    WakeCancelled(WakeCancelled),
    /// A parent opens it as its child.
    ChildOpened(ChildOpened),
    /// A child that nobody waits for any more is stopped.
    ChildStopped(ChildStopped),
    /// A session that works below this one tells where it stands.
    ChildReported(Arc<Report>),
    /// The session at the top was told where this one stands.
    RootTold,
    /// The parent knows what came of a run.
    ParentTold(ParentTold),
    /// A program proposes calls.
    CallsProposed(CallsProposed),
    /// A preview is ready.
    Previewed(Previewed),
    /// A queued call has a place in each of its pools.
    SlotTaken(SlotTaken),
    /// An attempt ended.
    AttemptEnded(AttemptEnded),
    /// A verify hook answered.
    Verified(Verified),
    /// A retry is due.
    RetryDue(RetryDue),
    /// Someone ends a wait.
    Resolved(Resolved),
    /// A wait ran out.
    Expired(Expired),
    /// No client is there to run a call.
    ClientGone(ClientGone),
    /// Someone stops one call.
    CallCancelled(CallCancelled),
    /// The tool of a waiting call is not what it was.
    ToolChanged(ToolChanged),
    /// Someone stops what is under way.
    Interrupted(Interrupted),
    /// Someone changes how the session behaves.
    Reconfigured(Reconfigured),
    /// Someone says what it is to achieve.
    GoalSet(GoalSet),
    /// Someone gives a standing permission.
    Granted(Granted),
    /// A grant beyond the session covers a call that waits.
    GrantOffered(GrantOffered),
    /// Someone takes a standing permission back.
    GrantRevoked(GrantRevoked),
    /// Someone ends the session.
    Ended(Ended),
    /// Someone wants the model asked again without saying anything new.
    TurnAsked(TurnAsked),
    /// The store was put back from a backup, so that what was open then may have happened since.
    Restored(Restored),
    /// A process took the session over; whatever ran in another is gone.
    Revived,
    /// Events were appended by someone else; look again at what can go on.
    Woken,
}

impl Input {
    /// Returns whether anyone may record it at any time, or only the process that owns the session:
    /// what reports on that process's own doings is nobody else's to say.
    pub fn is_for_anyone(&self) -> bool {
        match self {
            Self::MessageArrived(_)
            | Self::CallsProposed(_)
            | Self::Resolved(_)
            | Self::Expired(_)
            | Self::ClientGone(_)
            | Self::CallCancelled(_)
            | Self::ToolChanged(_)
            | Self::Interrupted(_)
            | Self::Reconfigured(_)
            | Self::GoalSet(_)
            | Self::Granted(_)
            | Self::GrantOffered(_)
            | Self::GrantRevoked(_)
            | Self::WakeQueued(_)
            | Self::WakeCancelled(_)
            | Self::ChildReported(_)
            | Self::Restored(_)
            | Self::Ended(_) => true,
            Self::Opened(_)
            | Self::ChildOpened(_)
            | Self::ContextSummarised(_)
            | Self::ChildStopped(_)
            | Self::ParentTold(_)
            | Self::RootTold
            | Self::ModelAnswered(_)
            | Self::ModelFailed(_)
            | Self::Previewed(_)
            | Self::SlotTaken(_)
            | Self::AttemptEnded(_)
            | Self::Verified(_)
            | Self::RetryDue(_)
            | Self::TurnAsked(_)
            | Self::Revived
            | Self::Woken => false,
        }
    }
}

/// Someone put the store back to an earlier moment.
#[derive(Debug, Clone)]
pub struct Restored {
    /// Who put it back.
    pub by: Actor,
    /// When the backup was made, if that is known.
    pub backed_up_at: Option<Timestamp>,
}

/// Someone wants the model asked again, after it failed or a limit stopped it.
#[derive(Debug, Clone)]
pub struct TurnAsked {
    /// Who.
    pub by: Actor,
}

/// Someone opens a session.
#[derive(Debug, Clone)]
pub struct Opened {
    /// Its id.
    pub session: SessionId,
    /// How it behaves.
    pub config: Config,
    /// Who.
    pub by: Actor,
}

/// Someone says something.
#[derive(Debug, Clone)]
pub struct MessageArrived {
    /// The message's id.
    pub message: MessageId,
    /// Who.
    pub from: Actor,
    /// What.
    pub content: Vec<ContentBlock>,
}

/// The model answered.
#[derive(Debug, Clone)]
pub struct ModelAnswered {
    /// The turn it answers.
    pub turn: u32,
    /// The attempt it answers.
    pub attempt: u32,
    /// What it says.
    pub content: Vec<ContentBlock>,
    /// The tools it was offered.
    pub advertised: Arc<BTreeSet<ToolName>>,
    /// The calls it asks for, in its order.
    pub calls: Vec<Proposal>,
    /// Results of calls that the provider ran.
    pub provider_results: Vec<ProviderResult>,
    /// Why it was offered less than it might have been.
    pub narrowed: Vec<Narrowed>,
    /// What else is known about the answer.
    pub details: AnswerDetails,
}

/// What is known about an answer beside what it says.
#[derive(Debug, Clone, Default)]
pub struct AnswerDetails {
    /// What it cost.
    pub usage: Option<Usage>,
    /// What its provider wants to be shown again as it was, by the vendor's name.
    pub provider_meta: Option<Value>,
    /// What the model says about how its work goes on.
    pub directive: Option<Directive>,
    /// How much of its budget what it was shown took.
    pub context: Option<ContextUse>,
}

/// Before the model is asked, what it would be shown is shortened.
#[derive(Debug, Clone)]
pub struct ContextSummarised {
    /// The turn for which the model is to be asked.
    pub turn: u32,
    /// The attempt.
    pub attempt: u32,
    /// What stands for the earlier turns from here on.
    pub summary: Summary,
}

/// Someone wants the session to go on at a time.
#[derive(Debug, Clone)]
pub struct WakeQueued {
    /// When and what for.
    pub wake: Wake,
    /// Who.
    pub by: Actor,
}

/// Someone wants a wake not to be.
#[derive(Debug, Clone)]
pub struct WakeCancelled {
    /// The wake.
    pub wake: WakeId,
    /// Who.
    pub by: Actor,
}

/// A parent opens a session as its child.
#[derive(Debug, Clone)]
pub struct ChildOpened {
    /// What the child is to do.
    pub delegation: Arc<Delegation>,
    /// On whose behalf.
    pub by: Actor,
    /// For whom.
    pub parent: Parent,
}

/// A child that nobody waits for any more is stopped.
#[derive(Debug, Clone)]
pub struct ChildStopped {
    /// The child.
    pub child: SessionId,
}

/// The parent knows what came of a run.
#[derive(Debug, Clone)]
pub struct ParentTold {
    /// The turn that ended the run.
    pub turn: u32,
}

/// The model could not be asked.
#[derive(Debug, Clone)]
pub struct ModelFailed {
    /// The turn.
    pub turn: u32,
    /// The attempt.
    pub attempt: u32,
    /// Why.
    pub failure: Failure,
    /// Whether its answer broke off midway. Nothing of such an answer was used, so the model is
    /// asked again, [`MODEL_ASKS_MAX`] times in all.
    pub broke_off: bool,
}

/// How many times a model is asked in one turn while its answers break off midway.
pub const MODEL_ASKS_MAX: u32 = 3;

/// A program proposes calls, all at once.
#[derive(Debug, Clone)]
pub struct CallsProposed {
    /// The calls, in order.
    pub calls: Vec<Proposal>,
}

/// One call that is asked for.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// Our id for it.
    pub id: CallId,
    /// The provider's id for it.
    pub provider_id: ProviderCallId,
    /// The name that was asked for.
    pub name: String,
    /// What the registry and the schema say.
    pub check: Check,
}

/// What the registry and the schema say about a proposed call.
#[derive(Debug, Clone)]
pub enum Check {
    /// No such tool.
    UnknownTool {
        /// What to tell the model.
        message: String,
    },
    /// The arguments are not strict JSON.
    Malformed {
        /// The arguments as they came.
        raw: String,
        /// What to tell the model.
        message: String,
    },
    /// The arguments do not fit the schema.
    Invalid {
        /// What to tell the model.
        message: String,
    },
    /// The call is sound.
    Sound(SoundCall),
}

/// A call of a known tool with arguments that fit.
#[derive(Debug, Clone)]
pub struct SoundCall {
    /// The tool's terms.
    pub contract: Arc<Contract>,
    /// The arguments.
    pub arguments: Arguments,
    /// What sources outside the core say.
    pub policy: PolicyFacts,
    /// Grants from beyond the session that may apply.
    pub grants: Vec<StandingGrant>,
}

/// What policy says about a call at one moment.
#[derive(Debug, Clone, Default)]
pub struct PolicyFacts {
    /// The verdicts of rules and environment.
    pub reports: Vec<SourceReport>,
    /// The precondition that does not hold, in words for the model.
    pub unmet_precondition: Option<String>,
}

/// A result of a call that the provider ran.
#[derive(Debug, Clone)]
pub struct ProviderResult {
    /// The provider's id for the call.
    pub provider_id: ProviderCallId,
    /// What came out.
    pub result: CallResult,
    /// What the provider says about it.
    pub meta: Option<Value>,
}

/// A preview is ready.
#[derive(Debug, Clone)]
pub struct Previewed {
    /// The call.
    pub call: CallId,
    /// What it would do.
    pub preview: Preview,
}

/// An attempt ended.
#[derive(Debug, Clone)]
pub struct AttemptEnded {
    /// The call.
    pub call: CallId,
    /// The attempt.
    pub attempt: u32,
    /// How.
    pub report: AttemptReport,
}

/// How an attempt ended.
#[derive(Debug, Clone)]
pub enum AttemptReport {
    /// The tool returned.
    Returned(Returned),
    /// The tool was not entered: the world is not what the approver was shown.
    WorldMoved {
        /// What the call would do to the world as it is.
        preview: Preview,
    },
    /// The tool gives the work to a child.
    Delegated(Box<Delegation>),
    /// The attempt ended, and nobody can say whether it took effect: its time was up, it was told
    /// to stop, it panicked, its connection broke, or its tool says so. It is then treated like an
    /// attempt whose process died, unless the tool only reads.
    EffectUnknown(EffectUnknown),
}

/// How an attempt ended that may or may not have taken effect.
#[derive(Debug, Clone)]
pub struct EffectUnknown {
    /// What happened to it.
    pub failure: Failure,
    /// Whether its code may still be running, because it did not stop when it was told to. Then
    /// no look at the world can show that it will not take effect.
    pub may_still_run: bool,
}

/// What a tool returned.
#[derive(Debug, Clone)]
pub struct Returned {
    /// What came out.
    pub result: CallResult,
    /// What it asks of the loop.
    pub directives: Directives,
    /// Members of an open dialect, untouched.
    pub extra: Map<String, Value>,
}

impl Returned {
    pub(super) fn is_deeper_than(&self, max: usize) -> bool {
        let extra = self.extra.values().any(|value| json::is_deeper_than(value, max));
        extra || is_deeper(&self.result, max)
    }
}

/// Returns whether a result is nested deeper than can be read back.
pub(super) fn is_deeper(result: &CallResult, max: usize) -> bool {
    let value = match result {
        CallResult::Ok(output) => output.value.as_ref(),
        CallResult::Err(failure) => failure.partial.as_ref(),
    };
    value.is_some_and(|value| json::is_deeper_than(value, max))
}

impl From<CallResult> for Returned {
    fn from(result: CallResult) -> Self {
        Self { result, directives: Directives::default(), extra: Map::new() }
    }
}

/// A verify hook answered.
#[derive(Debug, Clone)]
pub struct Verified {
    /// The call.
    pub call: CallId,
    /// The attempt in doubt.
    pub attempt: u32,
    /// What became of it.
    pub verdict: Verification,
}

/// What a verify hook found.
#[derive(Debug, Clone)]
pub enum Verification {
    /// It took effect, and this is what it gave.
    Applied(Output),
    /// It took effect, and what it gave is kept back, for this reason.
    Withheld(Failure),
    /// It did not take effect.
    Absent,
    /// The hook cannot tell.
    Unknown,
}

/// A queued call has a place in each of its pools, and keeps it until its attempt has ended.
#[derive(Debug, Clone)]
pub struct SlotTaken {
    /// The call.
    pub call: CallId,
}

/// A retry is due.
#[derive(Debug, Clone)]
pub struct RetryDue {
    /// The call.
    pub call: CallId,
}

/// A wait ran out.
#[derive(Debug, Clone)]
pub struct Expired {
    /// The call.
    pub call: CallId,
    /// Which wait.
    pub round: u32,
}

/// No client is there to run a call.
#[derive(Debug, Clone)]
pub struct ClientGone {
    /// The call.
    pub call: CallId,
    /// Which wait.
    pub round: u32,
}

/// Someone stops one call.
#[derive(Debug, Clone)]
pub struct CallCancelled {
    /// The call.
    pub call: CallId,
    /// Who.
    pub by: Actor,
    /// Why.
    pub note: Option<String>,
}

/// The tool of a waiting call is not what it was.
#[derive(Debug, Clone)]
pub struct ToolChanged {
    /// The call.
    pub call: CallId,
    /// How it changed.
    pub change: ToolChange,
}

/// How a tool changed under a waiting call.
#[derive(Debug, Clone)]
pub enum ToolChange {
    /// It is gone.
    Gone,
    /// It has other terms, under which the arguments may or may not fit.
    Redefined {
        /// The new terms.
        contract: Arc<Contract>,
        /// Whether the arguments fit.
        fit: Fit,
        /// What changed, for the approver.
        changes: String,
    },
}

/// Someone stops what is under way.
#[derive(Debug, Clone)]
pub struct Interrupted {
    /// Who.
    pub by: Actor,
    /// Why.
    pub note: Option<String>,
}

/// Someone changes how the session behaves.
#[derive(Debug, Clone)]
pub struct Reconfigured {
    /// How it behaves from here on.
    pub config: Config,
    /// Who.
    pub by: Actor,
}

/// Someone says what the session is to achieve.
#[derive(Debug, Clone)]
pub struct GoalSet {
    /// What.
    pub goal: Goal,
    /// Who.
    pub by: Actor,
}

/// Someone gives a standing permission.
#[derive(Debug, Clone)]
pub struct Granted {
    /// The grant.
    pub grant: StandingGrant,
}

/// A grant beyond the session covers a call that waits.
#[derive(Debug, Clone)]
pub struct GrantOffered {
    /// The call.
    pub call: CallId,
    /// Which wait.
    pub round: u32,
    /// The grant, for this one use.
    pub grant: StandingGrant,
    /// What policy says by now.
    pub policy: PolicyFacts,
}

/// Someone takes a standing permission back.
#[derive(Debug, Clone)]
pub struct GrantRevoked {
    /// The grant.
    pub grant: GrantId,
    /// Who.
    pub by: Actor,
}

/// Someone ends the session.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Who.
    pub by: Actor,
    /// Why.
    pub note: Option<String>,
}
