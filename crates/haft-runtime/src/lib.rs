//! The driver of Haft: the loop around the session machine.
//!
//! For every session at work there is one task. It owns the session by a lease, takes one input
//! at a time, decides, appends, answers, and only then does what was decided: runs a tool, asks
//! a model. When nothing runs it lets the session go; a session that waits for a person costs no
//! task and no memory. Whatever ends a wait needs no owner: any node records it, and whoever is
//! alive goes on from there.
//!
//! The driver decides nothing: what follows from an input is the machine's business
//! (`haft_core::session`). It does not know what tools there are: that is its [`Performer`]'s.

mod artifacts;
mod attempt_timer;
mod boundary;
mod cancellation;
mod clock;
mod driver;
mod error;
mod fresh;
mod haft;
mod job;
mod live;
mod model;
mod node_lease;
mod outage;
mod performer;
mod pools;
pub mod registry;
mod request;
mod restored;
pub mod schema;
mod session_task;
mod standing;
mod supervision;
mod sweeper;
pub mod testing;
mod tool;
mod toolbox;
mod unwinding;

pub use artifacts::{Artifacts, ArtifactsError, Found, Slice};
pub use attempt_timer::{AttemptTimer, ClockPause};
pub use boundary::{Boundary, Observer};
pub use cancellation::CancellationToken;
pub use clock::{Clock, ManualClock};
pub use driver::{Driver, Settings};
pub use error::{BatchError, InputError};
pub use fresh::fresh_bits;
pub use haft::{
    Answer, BuildError, CallError, Direct, ErasureProgress, GivenGrant, GrantError, GrantTerms,
    Grants, Haft, HaftBuilder, Idempotent, ResolveError, Response, Ruled, Said, UndoError, Verdict,
    Waiting,
};
pub use live::{Live, LiveNews, LiveStream, SessionListener, Step, Tap};
pub use model::{
    Adviser, AskedCall, LoopDirective, Model, ModelAnswer, ModelError, ModelRequest, SessionLog,
    WakeWish,
};
pub use outage::Outage;
pub use performer::{Entry, Job, Performer, Task};
pub use pools::{Offer, PoolLoad, Pools, QueuePlace};
pub use request::{Begun, RequestError, RequestKey, WorkingRequest};
pub use restored::{RestoreSummary, mark_restored};
pub use standing::{HeldGrant, Holder, LedgerError};
pub use supervision::supervise;
#[doc(hidden)]
pub use tool::__private;
pub use tool::{
    Delegated, FunctionTool, Need, Role, Services, Tool, ToolArguments, ToolContext, ToolError,
    ToolFuture, Until, Weighed,
};
pub use toolbox::{
    Invocation, Judgement, Middleware, Next, Opinion, Policy, Redactor, SealError, SealingKey,
    Toolbox, Verifier, Wish,
};
#[cfg(feature = "policy-file")]
pub use toolbox::{PolicyFile, PolicyFileError};
