//! The session machine: a pure function from state and input to events, an answer and effects.
//!
//! The driver loads a session, then repeats: take an input, [`decide`], append the events in one
//! transaction, answer, perform the effects. [`evolve`] folds events into the state; live running
//! and revival use the same function, so the log is the truth and the state a cache of it.
//!
//! The machine does nothing itself: no clock, no ids, no randomness, no waiting.

mod admission;
mod child;
mod config;
mod decide;
mod effect;
mod event;
mod evolve;
mod goal;
mod input;
mod refusal;
mod report;
mod resolution;
mod spend;
mod state;
mod summary;
mod suspension;
mod toolset;
mod usage;
mod wake;

pub use admission::{Approved, Basis, Permit, RejectReason, Rejection};
pub use child::{Awaits, Delegation, Hears, Parent};
pub use config::{Colleague, Config, Driver, Limits, MessageRule, MisuseRule};
pub use decide::{accept, decide, note};
pub use effect::{Decision, Effect, Reply};
pub use event::{
    Event, InterruptCause, Narrowed, RecoveryPlan, Seen, StartCause, TurnEnding, VerifyFinding,
};
pub use evolve::{Corrupt, evolve};
pub use goal::{ActiveGoal, Goal, GoalError};
pub use input::{
    AnswerDetails, AttemptEnded, AttemptReport, CallCancelled, CallsProposed, Check, ChildOpened,
    ChildStopped, ClientGone, ContextSummarised, EffectUnknown, Ended, Expired, GoalSet,
    GrantOffered, GrantRevoked, Granted, Input, Interrupted, MODEL_ASKS_MAX, MessageArrived,
    ModelAnswered, ModelFailed, Opened, ParentTold, PolicyFacts, Previewed, Proposal,
    ProviderResult, Reconfigured, Restored, RetryDue, Returned, SlotTaken, SoundCall, ToolChange,
    ToolChanged, TurnAsked, Verification, Verified, WakeCancelled, WakeQueued,
};
pub use refusal::{Refusal, Stale};
pub use report::{Ask, Report, Word};
pub use resolution::{Edit, Fit, Resolution, Resolved, Settlement};
pub use spend::Allowance;
pub use state::{Activity, Call, DecidedBy, OnAbsent, Open, Phase, State, Stopping};
pub use summary::Summary;
pub use suspension::{Decided, DecidedKind, Preview, SuspendReason, Suspension, SuspensionKind};
pub use toolset::{Agent, AllowedHosts, Environment, McpTool, Network, Toolset};
pub use usage::{ContextUse, Counted, Usage};
pub use wake::{Directive, FollowUp, Learning, LearningKind, Next, Priority, Wake};
