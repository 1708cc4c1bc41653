//! `#[tool]` makes a tool of a function, `#[tools]` of the methods of a value.
//!
//! Use them through the crate `haft`, which says how. What they write is small: the arguments as a
//! type with a schema, the definition, and a closure that calls the function. Everything else is
//! `haft_runtime`'s, and everything that can be wrong is said at its place in the source.

mod boxed;
mod cost;
mod docs;
mod effect;
mod emit;
mod free;
mod function;
mod methods;
mod options;
mod parameter;
mod routing;
mod schema;
mod undo;
mod values;

use proc_macro::TokenStream;

/// Makes a tool of a function. The function stays what it is; beside it stands a type of the same
/// name, so that `weather(..)` calls the function, `weather::tool()` makes the tool, and
/// `weather::NAME` is its name. Importing one imports the other.
///
/// The doc comment is what the model reads, up to the first heading: what stands below `# Errors`
/// is for programmers.
///
/// # What it does
///
/// The first word is required:
///
/// | word | the tool |
/// |---|---|
/// | `read` | only looks |
/// | `write` | changes data, in a way that can be revised |
/// | `delete` | removes data for good |
/// | `external` | acts outside, through a network, where nothing can be taken back: mail, orders, payments |
///
/// # Options
///
/// | option | meaning |
/// |---|---|
/// | `approve`, `approve = always`, `approve = two`, `approve = never` | a person approves each call; whatever grants say; two people must; nobody need |
/// | `preview = function` | shows whoever approves what a call would do |
/// | `key` | whoever is called recognises `cx.idempotency_key()`, so a call may be repeated |
/// | `idempotent` | a second run does no more |
/// | `verify = function` | finds out whether an interrupted call took effect |
/// | `undo(tool = cancel, window = "30m", args(id = result("/id"), by = argument("/who"), why = "undo"))` | the call that takes this one back |
/// | `timeout = "30s"` | how long an attempt may run; 15 s if left out |
/// | `suspend = "7d"` | how long a call may wait for someone |
/// | `retry(3, backoff = "1s", backoff_max = "30s", on(upstream, timeout, rate_limited, tool_error))` | attempts in all, waits between them, failures worth another |
/// | `exclusive` | no other call of the turn runs beside it |
/// | `interrupt = cancel`, `interrupt = block` | what an interrupt does to a running call |
/// | `progress` | it reports progress before its result |
/// | `blocking` | not `async`, and waits: runs on a thread where that hurts nobody |
/// | `reach(machine, network, service)`, `process`, `files(read("/data"))`, `spend`, `shared` | the user's machine, any network, another's service; starts processes; touches files; costs money; touches what others see |
/// | `cost(amount = cents, unit = "EUR")` | what a call costs, for limits on spending: parameters, `argument("/place")` inside one, or the same for every call |
/// | `consequence = high` | how much a call matters: `low`, `medium`, `high` |
/// | `name = "other"`, `title = "Shown to people"`, `version = "1.2.0"`, `tags("a", "b")` | |
/// | `use_when = "..", not_for("case" => other_tool), source = ".."` | when it is the right tool; the model reads it after the doc comment |
/// | `depends_on(other_tool)` | tools that this one calls |
/// | `output`, `output = Type` | the shape of the result is part of the definition |
/// | `define = function` | `fn(Definition) -> Definition`, for everything else; it has the last word |
/// | `crate = path` | where Haft is, if not at `::haft` |
///
/// Another tool is named by the path of its function, which rustc checks, or by a text.
///
/// # Parameters
///
/// - `city: String`: an argument, which the model chooses. Its type is read with serde and
///   described by `schemars::JsonSchema`; its doc comment is its description. An `Option` may be
///   left out.
/// - `#[tool(default)]`, `#[tool(default = 10)]`: may be left out.
/// - `#[tool(secret)]`: run as given, recorded and shown masked.
/// - `#[tool(name = "type")]`: what the model calls it.
/// - `#[schemars(range(min = 1))]`: constraints for the schema.
/// - `db: &Db`: a service, which the application gave to the runtime; `Option<&Db>` where there
///   may be none. `cx: &ToolContext`: the call's context. Neither is in the schema, and whatever a
///   model sends under their names is thrown away.
///
/// `preview` and `verify` are `async` functions with the same parameters in the same order; they
/// return `Result<Preview, _>` and `Verification`.
///
/// # What is returned
///
/// Anything that is `Serialize`, or a `Result` of it. A `String` is text for the model too; an
/// `Output` or a `Returned` is taken as it is. An error turns into a `ToolError`, by `Into` if it
/// can, else by what it prints.
///
/// A function that is not `async` runs where it is called; one that waits for files, locks or long
/// computations is `blocking`.
///
/// # Type parameters
///
/// `search::<Db>::tool()` is the tool for one choice of types.
///
/// ```
/// /// Refund a charge. Use when a customer is owed money.
/// #[haft::tool(
///     external,
///     approve,
///     key,
///     spend,
///     consequence = high,
///     undo(tool = cancel_refund, window = "30m", args(refund = result("/id"))),
///     timeout = "20s",
///     retry(3, backoff = "1s", on(upstream, timeout)),
/// )]
/// async fn refund(
///     /// The charge to refund
///     charge: String,
///     /// Amount in cents
///     #[schemars(range(min = 1, max = 500_000))]
///     cents: u32,
///     cx: &haft::ToolContext,
/// ) -> haft::Value {
///     haft::json!({"id": cx.idempotency_key(), "charge": charge, "cents": cents})
/// }
///
/// /// Cancel a refund.
/// #[haft::tool(delete, idempotent)]
/// fn cancel_refund(refund: String) {
///     drop(refund);
/// }
///
/// let definition = haft::Tool::definition(&refund::tool());
/// assert_eq!(definition.undo.unwrap().tool.as_str(), cancel_refund::NAME);
/// ```
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    free::expand(options.into(), &item.into()).into()
}

/// Makes tools of the methods of a value.
///
/// Each method that is marked with `#[tool(..)]`, and takes `&self`, becomes a tool; the block gets
/// a method `tools(self: Arc<Self>) -> Vec<Arc<dyn Tool>>` that makes them. `#[tools(other_name)]`
/// calls it otherwise, for a type with more than one such block. Hooks are methods too:
/// `preview = Self::refund_preview`.
///
/// ```
/// use std::sync::{Arc, Mutex};
///
/// struct Desk {
///     refunded: Mutex<u32>,
/// }
///
/// #[haft::tools]
/// impl Desk {
///     /// Refund a charge.
///     #[tool(write, approve)]
///     fn refund(&self, cents: u32) -> u32 {
///         let mut refunded = self.refunded.lock().unwrap();
///         *refunded += cents;
///         *refunded
///     }
/// }
///
/// let desk = Arc::new(Desk { refunded: Mutex::new(0) });
/// assert_eq!(Desk::tools(desk).len(), 1);
/// ```
#[proc_macro_attribute]
pub fn tools(settings: TokenStream, item: TokenStream) -> TokenStream {
    methods::expand(settings.into(), &item.into()).into()
}

/// Describes a type to models: derives `schemars::JsonSchema`, with all attributes of schemars'
/// own derive. The crate that uses it needs `haft` among its dependencies, and not `schemars`.
///
/// `haft` must go by its own name. Where it is renamed, derive `schemars::JsonSchema` of the
/// renamed crate and say where that is: `#[schemars(crate = "renamed::schemars")]`.
///
/// ```
/// #[derive(haft::JsonSchema)]
/// #[schemars(rename_all = "snake_case")]
/// enum Unit {
///     Celsius,
///     Fahrenheit,
/// }
///
/// let schema = haft::schemars::schema_for!(Unit);
/// assert_eq!(schema.get("enum"), Some(&haft::json!(["celsius", "fahrenheit"])));
/// ```
#[proc_macro_derive(JsonSchema, attributes(garde, schemars, serde, validate))]
pub fn json_schema(item: TokenStream) -> TokenStream {
    schema::expand(item.into()).into()
}

/// Expands to nothing. For what [`JsonSchema`] writes.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn vanish(_: TokenStream, _: TokenStream) -> TokenStream {
    schema::vanish().into()
}

/// Compiles an async function, or every public one of an `impl` block, where it is written and not
/// once more in each crate that awaits it. For Haft's own crates.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn boxed(_: TokenStream, item: TokenStream) -> TokenStream {
    boxed::expand(item.into()).into()
}
