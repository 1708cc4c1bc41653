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
    Answer, Artifacts, AskedCall, BuildError, CallError, Direct, FunctionTool, GrantError,
    GrantTerms, Grants, Haft, HaftBuilder, HeldGrant, Holder, InputError, Invocation, Judgement,
    Live, LiveStream, Middleware, Model, ModelAnswer, ModelRequest, Need, Next, Opinion, Policy,
    ResolveError, Response, SealingKey, Services, Settings, Step, Tool, ToolArguments, ToolContext,
    ToolError, ToolFuture, UndoError, Verdict, Verifier, Waiting, Wish,
};
pub use haft_runtime::{registry, schema, testing};
pub use haft_store::{Store, Tenant};
pub use schemars::{self, JsonSchema};
pub use serde_json::{Value, json};

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
