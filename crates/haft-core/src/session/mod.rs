//! The session machine: a pure function from state and input to events, an answer and effects.
//!
//! The driver loads a session, then repeats: take an input, [`decide`], append the events in one
//! transaction, answer, perform the effects. [`evolve`] folds events into the state; live running
//! and revival use the same function, so the log is the truth and the state a cache of it.
//!
//! The machine does nothing itself: no clock, no ids, no randomness, no waiting.

mod admission;
mod config;
mod decide;
mod effect;
mod event;
mod evolve;
mod input;
mod refusal;
mod resolution;
mod state;
mod suspension;
mod toolset;

pub use admission::{Basis, Permit, RejectReason, Rejection};
pub use config::{Config, Driver, Limits, MessageRule};
pub use decide::{accept, decide, note};
pub use effect::{Decision, Effect, Reply};
pub use event::{
    Event, InterruptCause, Narrowed, RecoveryPlan, Seen, StartCause, TurnEnding, VerifyFinding,
};
pub use evolve::{Corrupt, evolve};
pub use input::{
    AttemptEnded, AttemptReport, CallCancelled, CallsProposed, Check, ClientGone, Ended, Expired,
    GrantRevoked, Granted, Input, Interrupted, MessageArrived, ModelAnswered, ModelFailed, Opened,
    PolicyFacts, Previewed, Proposal, ProviderResult, Reconfigured, RetryDue, Returned, SoundCall,
    ToolChange, ToolChanged, TurnAsked, Verification, Verified,
};
pub use refusal::{Refusal, Stale};
pub use resolution::{Edit, Fit, Resolution, Resolved, Settlement};
pub use state::{Activity, Call, DecidedBy, Open, Phase, State, Stopping};
pub use suspension::{Decided, DecidedKind, Preview, SuspendReason, Suspension, SuspensionKind};
pub use toolset::{Agent, Environment, Network, Toolset};
