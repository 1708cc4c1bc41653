//! What a tool is: its definition, its facets, its schemas, and the contract a call keeps of it.

mod behaviour;
mod classify;
mod contract;
mod cost;
mod definition;
mod facets;
mod schema;
mod soundness;
mod versioning;

pub use behaviour::{
    Concurrency, Consequence, Display, Executor, Gate, Hook, Injected, InjectedKind,
    InterruptBehavior, NotFor, Ownership, Pool, Precondition, Redaction, Retention, Retry, Routing,
    Status, Streaming, Undo, UndoSource, Version, VersionError,
};
pub use classify::{MODE_TABLE, NameMatch, classify};
pub use contract::{Contract, Preview, Recovery, Reversal};
pub use cost::{Cost, Price, Spending, Told, Unit, UnitError, Unpriced};
pub use definition::{Definition, DefinitionError, Problem, ToolSpec};
pub use facets::{
    Affordance, Category, Classification, DeclaredEffect, Facets, FsAccess, Idempotency, Mode,
    Mutates, ProcessUse, Reach, ResolvedFacets, RunRule, Scope, Spend, Treatment,
};
pub use schema::{Schema, SchemaError};
pub use versioning::version_problems;
