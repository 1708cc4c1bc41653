//! What the rows beside the log say, derived from the events of one append.
//!
//! This is the only place that knows which event opens or closes what; the databases only carry
//! the changes out. The fold keeps the last word about each call, because a call may be proposed,
//! admitted and started in one transition.

use haft_core::session::{DecidedBy, Event, RecoveryPlan, SuspensionKind, VerifyFinding};
use haft_core::tool::Ownership;
use haft_core::{Actor, CallId, CallResult, ErrorClass, Outcome, SessionId, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::notice::NoticeKind;

/// What a session is doing, as far as a list shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionStatus {
    /// It is over.
    Ended,
    /// Nothing is under way.
    Idle,
    /// A turn is under way.
    Working,
}

impl SessionStatus {
    /// Returns the stored word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Idle => "idle",
            Self::Working => "working",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        [Self::Ended, Self::Idle, Self::Working].into_iter().find(|known| known.as_str() == word)
    }
}

/// Where a call stands, also one of an earlier turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallStage {
    /// It was proposed.
    Proposed,
    /// It may run.
    Ready,
    /// It runs.
    Running,
    /// It has its outcome.
    Settled,
    /// It waits for someone outside.
    Waiting,
}

impl CallStage {
    const ALL: [Self; 5] =
        [Self::Proposed, Self::Ready, Self::Running, Self::Settled, Self::Waiting];

    /// Returns the stored word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Proposed => "proposed",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Settled => "settled",
            Self::Waiting => "waiting",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == word)
    }
}

/// Writes a unit variant as the word that serde knows it by.
pub(crate) fn word<T: Serialize>(value: &T) -> String {
    let quoted = serde_json::to_string(value).unwrap_or_default();
    debug_assert!(quoted.starts_with('"'), "only unit variants are written as a word");
    quoted.trim_matches('"').to_owned()
}

/// Reads a unit variant back.
pub(crate) fn from_word<T: DeserializeOwned>(word: &str) -> Option<T> {
    serde_json::from_value(serde_json::Value::String(word.to_owned())).ok()
}

/// What stands as the tool of a wake's row. A wake is a timer like a retry, and its id is drawn
/// like a call's; no tool has this name.
const WAKE: &str = "(wake)";

/// The changes that one append makes beside the log.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Rows {
    pub(crate) status: Option<SessionStatus>,
    /// Said when the session is opened, and never again.
    pub(crate) agent: Option<String>,
    pub(crate) parent: Option<SessionId>,
    pub(crate) opened_by: Option<String>,
    /// Which event of the append says how the session behaves from here on.
    pub(crate) config_offset: Option<u64>,
    pub(crate) calls: Vec<CallChange>,
    pub(crate) notices: Vec<Notice>,
}

/// What an append tells to whoever wants to hear.
#[derive(Debug, PartialEq)]
pub(crate) struct Notice {
    /// Which event of the append.
    pub(crate) offset: u64,
    pub(crate) kind: NoticeKind,
}

/// What an append changes about one call.
#[derive(Debug, PartialEq)]
pub(crate) struct CallChange {
    pub(crate) call: CallId,
    /// The name that was asked for, when the call is heard of for the first time.
    pub(crate) asked_for: Option<String>,
    /// Where it stands from here on; `None` when it stands where it did.
    pub(crate) stage: Option<CallStage>,
    pub(crate) class: Option<ErrorClass>,
    pub(crate) decided: Option<DecidedBy>,
    pub(crate) wait: Option<WaitChange>,
    pub(crate) retry: Option<RetryChange>,
    /// Which events of the append are shown to whoever is asked about the call.
    pub(crate) told_offsets: Vec<u64>,
    /// Whether the program that made the session answers for the call, when the append says so.
    pub(crate) is_custom: Option<bool>,
}

/// Returns who opened a session, as the rows have it.
pub(crate) fn opener(event: &Event) -> Option<String> {
    match event {
        Event::SessionOpened { by, .. } => Some(actor(by)),
        _ => None,
    }
}

/// Writes an actor as one text, which is equal for equal actors only: a kind has no colon.
pub(crate) fn actor(actor: &Actor) -> String {
    format!("{}:{}", word(&actor.kind), actor.id.as_str())
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum WaitChange {
    Closed,
    Opened { round: u32, kind: SuspensionKind, expires_at: Timestamp },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RetryChange {
    Due(Timestamp),
    Over,
}

impl Rows {
    pub(crate) fn of(at: Timestamp, events: &[Event]) -> Self {
        let mut rows = Self::default();
        for (offset, event) in events.iter().enumerate() {
            rows.take(at, event);
            rows.note_place(offset as u64, event);
        }
        rows.leave_out_what_changes_nothing();
        rows.notices = notices(rows.status, events);
        rows
    }

    /// A call that was proposed in this very append has no earlier wait or retry to end.
    fn leave_out_what_changes_nothing(&mut self) {
        for call in self.calls.iter_mut().filter(|call| call.asked_for.is_some()) {
            call.wait.take_if(|wait| *wait == WaitChange::Closed);
            call.retry.take_if(|retry| *retry == RetryChange::Over);
        }
    }

    /// Notes where the log says what a list shows, so that the list reads those entries and no
    /// others.
    fn note_place(&mut self, offset: u64, event: &Event) {
        let call = match event {
            Event::SessionOpened { .. } | Event::SessionReconfigured { .. } => {
                self.config_offset = Some(offset);
                return;
            }
            Event::CallProposed { call, .. }
            | Event::CallSuspended { call, .. }
            | Event::CallEndorsed { call, .. }
            | Event::CallResolved { call, .. }
            | Event::CallRedefined { call, .. }
            | Event::CallBarred { call, .. } => *call,
            _ => return,
        };
        let row = self.known(call);
        row.told_offsets.push(offset);
        if let Event::CallProposed { contract, .. } | Event::CallRedefined { contract, .. } = event
        {
            row.is_custom = Some(contract.ownership == Ownership::Custom);
        }
    }

    fn take(&mut self, at: Timestamp, event: &Event) {
        match event {
            Event::SessionOpened { config, parent, .. } => {
                self.status = Some(SessionStatus::Idle);
                self.agent = config.agent.as_ref().map(|agent| agent.id.clone());
                self.parent = parent.map(|parent| parent.session);
                self.opened_by = opener(event);
            }
            Event::TurnEnded { .. } => self.status = Some(SessionStatus::Idle),
            Event::TurnStarted { .. } => self.status = Some(SessionStatus::Working),
            Event::WakeQueued { wake } => {
                let row = self.call(CallId::from_bits(wake.id.bits()), CallStage::Ready);
                row.asked_for = Some(WAKE.to_owned());
                row.retry = Some(RetryChange::Due(wake.due));
            }
            Event::WakeFellDue { wake } | Event::WakeCancelled { wake, .. } => {
                let row = self.call(CallId::from_bits(wake.bits()), CallStage::Settled);
                row.retry = Some(RetryChange::Over);
            }
            Event::SessionEnded {} => self.status = Some(SessionStatus::Ended),
            event => self.take_of_call(at, event),
        }
    }

    /// What has no row of its own changes none.
    fn take_of_call(&mut self, at: Timestamp, event: &Event) {
        match event {
            Event::CallProposed { call, contract, .. } => {
                let row = self.call(*call, CallStage::Proposed);
                row.asked_for = Some(contract.tool.as_str().to_owned());
            }
            Event::CallRejected { call, name, rejection, .. } => {
                let row = self.call(*call, CallStage::Settled);
                row.asked_for = Some(printable(name));
                row.class = Some(rejection.reason.class());
            }
            Event::CallAdmitted { call, .. } => self.stand(*call, CallStage::Ready),
            Event::CallPreviewing { call, .. } => {
                self.call(*call, CallStage::Proposed).wait = Some(WaitChange::Closed);
            }
            Event::CallSuspended { call, round, kind, expires_at, .. } => {
                let row = self.call(*call, CallStage::Waiting);
                let (round, kind, expires_at) = (*round, *kind, *expires_at);
                row.wait = Some(WaitChange::Opened { round, kind, expires_at });
                row.retry = Some(RetryChange::Over);
            }
            Event::CallResolved { call, resolution, by, decision, .. } => {
                let row = self.call(*call, CallStage::Ready);
                row.wait = Some(WaitChange::Closed);
                let (resolution, by, kind) = (*resolution, by.clone(), decision.kind());
                row.decided = Some(DecidedBy { resolution, by, kind, at });
            }
            Event::CallStarted { call, .. } => {
                self.call(*call, CallStage::Running).retry = Some(RetryChange::Over);
            }
            Event::CallRetryScheduled { call, due, .. } => {
                self.call(*call, CallStage::Ready).retry = Some(RetryChange::Due(*due));
            }
            Event::CallInterrupted { call, plan, .. } => self.stand(*call, after_interrupt(*plan)),
            Event::CallVerified { call, finding, .. } => {
                self.stand(*call, after_verification(*finding));
            }
            Event::CallCancelling { call, .. } => self.stand(*call, CallStage::Running),
            Event::CallFinished { outcome } => self.finish(outcome),
            Event::SessionReconfigured { .. }
            | Event::SessionInterrupted { .. }
            | Event::SessionEnding { .. }
            | Event::MessageReceived { .. }
            | Event::TurnRetried { .. }
            | Event::TurnAnswered { .. }
            | Event::ContextSummarised { .. }
            | Event::LoopDirected { .. }
            | Event::LearningCaptured { .. }
            | Event::CallDelegated { .. }
            | Event::ChildStopped { .. }
            | Event::ParentTold { .. }
            | Event::ChildReported { .. }
            | Event::CallRedefined { .. }
            | Event::CallBarred { .. }
            | Event::CallEndorsed { .. }
            | Event::ProviderResultIgnored { .. }
            | Event::GoalSet { .. }
            | Event::GrantAdded { .. }
            | Event::GrantRevoked { .. }
            | Event::SessionOpened { .. }
            | Event::SessionEnded {}
            | Event::TurnStarted { .. }
            | Event::TurnEnded { .. }
            | Event::WakeQueued { .. }
            | Event::WakeFellDue { .. }
            | Event::WakeCancelled { .. } => {}
        }
    }

    fn stand(&mut self, call: CallId, stage: CallStage) {
        self.call(call, stage);
    }

    fn finish(&mut self, outcome: &Outcome) {
        let row = self.call(outcome.call, CallStage::Settled);
        row.wait = Some(WaitChange::Closed);
        row.retry = Some(RetryChange::Over);
        row.class = match &outcome.result {
            CallResult::Ok(_) => None,
            CallResult::Err(failure) => Some(failure.class),
        };
    }

    fn call(&mut self, call: CallId, stage: CallStage) -> &mut CallChange {
        let row = self.known(call);
        row.stage = Some(stage);
        row
    }

    fn known(&mut self, call: CallId) -> &mut CallChange {
        let at = match self.calls.iter().position(|row| row.call == call) {
            Some(at) => at,
            None => {
                self.calls.push(CallChange {
                    call,
                    asked_for: None,
                    stage: None,
                    class: None,
                    decided: None,
                    wait: None,
                    retry: None,
                    told_offsets: Vec::new(),
                    is_custom: None,
                });
                self.calls.len() - 1
            }
        };
        &mut self.calls[at]
    }
}

const fn after_interrupt(plan: RecoveryPlan) -> CallStage {
    match plan {
        RecoveryPlan::Rerun => CallStage::Ready,
        RecoveryPlan::Verify | RecoveryPlan::Ask | RecoveryPlan::Report => CallStage::Running,
    }
}

const fn after_verification(finding: VerifyFinding) -> CallStage {
    match finding {
        VerifyFinding::Absent => CallStage::Ready,
        VerifyFinding::Applied | VerifyFinding::Unknown => CallStage::Running,
    }
}

fn notices(status: Option<SessionStatus>, events: &[Event]) -> Vec<Notice> {
    // A turn that is followed by another at once leaves nothing idle.
    let is_last = |at: usize| !events[at + 1..].iter().any(is_turn_end);
    let numbered = events.iter().enumerate();
    let told = numbered.filter_map(|(at, event)| {
        let kind = match event {
            Event::TurnEnded { .. } => (status == Some(SessionStatus::Idle) && is_last(at))
                .then_some(NoticeKind::SessionIdle),
            event => told_of(event),
        };
        Some(Notice { offset: at as u64, kind: kind? })
    });
    told.collect()
}

const fn is_turn_end(event: &Event) -> bool {
    matches!(event, Event::TurnEnded { .. })
}

const fn told_of(event: &Event) -> Option<NoticeKind> {
    match event {
        Event::CallSuspended { kind, .. } => match kind {
            SuspensionKind::Approval => Some(NoticeKind::CallWaitingApproval),
            SuspensionKind::Elicitation => Some(NoticeKind::CallWaitingElicitation),
            SuspensionKind::ClientExec => Some(NoticeKind::CallWaitingClientExec),
            SuspensionKind::Settlement => Some(NoticeKind::CallInDoubt),
            SuspensionKind::Child => None,
        },
        Event::CallResolved { .. } => Some(NoticeKind::CallResolved),
        Event::CallFinished { .. } => Some(NoticeKind::CallFinished),
        Event::SessionEnded {} => Some(NoticeKind::SessionEnded),
        _ => None,
    }
}

/// A name that a model made up may hold anything; the log keeps it whole, the row what can be
/// shown and stored as text anywhere.
fn printable(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(200).collect()
}
