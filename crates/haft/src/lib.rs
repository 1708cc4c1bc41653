//! Haft: the durable, permissioned tool runtime for LLM agents. This is the crate to add.
//!
//! A tool is a function. What the model reads about it is its doc comment, what the model may
//! choose are its parameters, and what it does to the world is the first word of `#[tool]`:
//!
//! ```
//! use haft::{JsonSchema, Services, Tool, ToolContext, ToolError, json, tool};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Deserialize, JsonSchema)]
//! enum Unit { Celsius, Fahrenheit }
//!
//! #[derive(Serialize)]
//! struct Weather { degrees: f64 }
//!
//! struct Station { celsius: f64 }
//!
//! /// Current weather for a city. Use when the user asks about the weather now.
//! #[tool(read, reach(network), timeout = "5s")]
//! async fn weather(
//!     /// City name, such as "Oslo"
//!     city: String,
//!     /// Unit of the answer; Celsius if left out
//!     unit: Option<Unit>,
//!     station: &Station, // a reference is a service: supplied by the runtime,
//!     cx: &ToolContext,  // as is the context; no model ever sees either
//! ) -> Result<Weather, ToolError> {
//!     cx.require_going()?;
//!     if city.is_empty() {
//!         return Err(ToolError::invalid("name a city"));
//!     }
//!     let degrees = match unit {
//!         Some(Unit::Fahrenheit) => station.celsius * 1.8 + 32.0,
//!         Some(Unit::Celsius) | None => station.celsius,
//!     };
//!     Ok(Weather { degrees })
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! // It is a tool, to be registered ...
//! let tool = weather::tool();
//! let schema = tool.definition().input_schema;
//! assert_eq!(schema.value()["required"], json!(["city"]));
//! assert_eq!(schema.value()["properties"]["city"]["description"], "City name, such as \"Oslo\"");
//!
//! // ... and still a function, to be tested.
//! let mut services = Services::default();
//! services.insert(Station { celsius: 21.0 });
//! let cx = ToolContext::detached(services)?;
//! let here = weather("Oslo".into(), None, cx.service()?, &cx).await?;
//! assert_eq!(here.degrees, 21.0);
//! # Ok::<(), ToolError>(())
//! # }).unwrap();
//! ```
//!
//! [`tool`] lists what else can be declared: who approves, how a call is repeated, shown before it
//! runs, found again after a crash and taken back. [`tools`] does the same for the methods of a
//! value. A tool whose definition exists only at run time is a [`FunctionTool`]; anything else
//! implements [`Tool`] itself.
//!
//! # Running calls
//!
//! A [`Haft`] is a node: tools, services, policies and a [`Store`]. A session is a series of calls
//! with one log, driven by a model or by your program. A call is [`Answer::Done`], or it waits for
//! someone, for as long as its tool says, through restarts:
//!
//! ```
//! use haft::testing::user;
//! use haft::{Answer, Config, Driver, Haft, Response, Store, Tenant, json, tool};
//!
//! /// Deletes a report. Use when it is out of date.
//! #[tool(delete, approve, suspend = "7d")]
//! fn delete_report(
//!     /// Report number
//!     number: u32,
//! ) -> String {
//!     format!("deleted {number}")
//! }
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
//! # let directory = tempfile::tempdir()?;
//! # let directory = directory.path();
//! let haft = Haft::builder().tool(delete_report::tool()).start(Store::open_sqlite(directory)?)?;
//! let config = Config { driver: Driver::Caller, ..Config::default() };
//! let session = haft.open(Tenant::new("acme")?, config, user("carla")).await?;
//!
//! let arguments = json!({"number": 7}).as_object().cloned().unwrap_or_default();
//! let Answer::Waiting(wait) = haft.call(session, "delete_report", arguments).await? else {
//!     panic!("somebody is asked first")
//! };
//! // From here on the process may end; any other that opens the store can go on.
//! let yes = Response::Approve { arguments: None, note: None, grant: None };
//! haft.resolve(session, wait.call, user("ann"), yes).await?;
//! assert!(matches!(haft.wait(session, wait.call).await?, Answer::Done(_)));
//! # haft.shutdown(std::time::Duration::from_secs(5)).await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | declaring tools | [`tool`], [`tools`], [`definition`], [`FunctionTool`] |
//! | what a tool is given | [`ToolContext`], [`Services`], [`ToolError`], [`Artifacts`] |
//! | making calls and waiting | [`Haft::call`], [`Haft::propose`], [`Haft::wait`], [`Answer`] |
//! | ending waits | [`Haft::resolve`], [`Response`], [`Verdict`], [`Refusal`] |
//! | standing permission | [`GrantTerms`], [`Haft::grants`], [`Holder`] |
//! | rules of your own | [`Policy`], [`permission`], [`Middleware`], [`Verifier`] |
//! | taking back | [`Haft::undo`] |
//! | models | [`Model`], [`ModelRequest`], [`ModelAnswer`], [`Adviser`] |
//! | tests | [`testing`] |
//!
//! The guides in the repository's `docs/` are compiled and run like this page.

#[cfg(doctest)]
mod guides;

pub use haft_core::session::{
    Allowance, Config, Driver, Limits, Preview, Refusal, Reply, Returned, SuspendReason,
    SuspensionKind, Verification,
};
pub use haft_core::{
    Actor, ActorId, ArtifactId, ArtifactRef, CallId, CallResult, ContentBlock, Digest, Directives,
    ErrorClass, Failure, JsonPointer, MessageId, Millis, Outcome, Output, SessionId, Timestamp,
    ToolName,
};
pub use haft_macros::{tool, tools};
#[doc(hidden)]
pub use haft_runtime::__private;
pub use haft_runtime::{
    Adviser, Answer, Artifacts, AskedCall, BuildError, CallError, Direct, FunctionTool, GrantError,
    GrantTerms, Grants, Haft, HaftBuilder, HeldGrant, Holder, InputError, Invocation, Judgement,
    Live, LiveStream, Middleware, Model, ModelAnswer, ModelRequest, Need, Next, Opinion, Policy,
    ResolveError, Response, SealingKey, Services, Settings, Step, Tool, ToolArguments, ToolContext,
    ToolError, ToolFuture, UndoError, Verdict, Verifier, Waiting, Wish,
};
pub use haft_runtime::{registry, schema, testing};
pub use haft_store::{Store, Tenant};
pub use schemars::{self, JsonSchema};
pub use serde_json::{Value, json};

/// What decides whether a call may run: levels, what sources say, and the bounds of a grant.
///
/// ```
/// use haft::permission::{Condition, Level, Test};
/// use haft::{Config, GrantTerms, JsonPointer, json};
///
/// // Whoever approves can let the next three calls through, as long as they go to Oslo.
/// let city = JsonPointer::new("/city")?;
/// let when = vec![Condition { field: city, test: Test::Equals(json!("Oslo")) }];
/// let terms = GrantTerms { when, uses: Some(3), ..GrantTerms::default() };
/// // And in this session even tools that are declared to need nobody are asked about.
/// let config = Config { level: Level::Paranoid, ..Config::default() };
/// # assert_eq!((terms.uses, config.level), (Some(3), Level::Paranoid));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub mod permission {
    pub use haft_core::permission::{
        Amount, AmountError, Budget, Condition, Derivation, Exposure, Finding, Level, Profile,
        Report, Source, StandingGrant, Test, Verdict,
    };
}

/// What is declared about a tool, field by field.
pub mod definition {
    pub use haft_core::tool::{
        Category, Concurrency, Consequence, Cost, Definition, DefinitionError, Display, Facets,
        FsAccess, Gate, Hook, Idempotency, Injected, InjectedKind, InterruptBehavior, Mode,
        Mutates, NotFor, Precondition, ProcessUse, Reach, Redaction, Retention, Retry, Routing,
        Schema, SchemaError, Scope, Spend, Status, Streaming, Told, ToolSpec, Undo, UndoSource,
        Unit, UnitError, Version,
    };
}
