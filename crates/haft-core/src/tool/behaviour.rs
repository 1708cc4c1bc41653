//! How a tool's calls are run, kept and shown: the declared knobs of a definition.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};

use crate::name::ToolName;
use crate::outcome::ErrorClass;
use crate::pointer::JsonPointer;
use crate::time::Millis;

/// Who owns the capability (document 002).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ownership {
    /// The runtime.
    #[default]
    Managed,
    /// An MCP server.
    Mcp,
    /// The user or the app: fulfilled on their side.
    Custom,
}

/// Who produces the result (document 004).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Executor {
    /// Our code.
    #[default]
    Server,
    /// A person: the answer is the result.
    Human,
    /// The connected browser or app.
    Client,
    /// The model's provider, within its own response.
    Provider,
}

/// The approval gate in front of a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// Not declared: the other sources of permission decide.
    #[default]
    Unset,
    /// Declared to need nobody.
    Auto,
    /// A person approves each call, unless a grant or the autonomous level says otherwise.
    Ask,
    /// A person approves each call, whatever the level and the grants say.
    AskAlways,
    /// Two people approve each call, whatever the level and the grants say.
    AskTwo,
}

impl Gate {
    /// Returns whether the definition itself asks for a person.
    pub fn asks(self) -> bool {
        matches!(self, Self::Ask | Self::AskAlways | Self::AskTwo)
    }

    /// Returns whether it asks about each call, so that no grant and no level can answer.
    pub fn always_asks(self) -> bool {
        matches!(self, Self::AskAlways | Self::AskTwo)
    }

    /// Returns how many people must say yes where it asks.
    pub fn n_approvals(self) -> usize {
        match self {
            Self::AskTwo => 2,
            Self::Unset | Self::Auto | Self::Ask | Self::AskAlways => 1,
        }
    }
}

/// A condition that no person can wave through by approving.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precondition {
    /// The session's outcome must evaluate to `pass`.
    OutcomePass,
}

/// What an interrupt does to a running call (document 002).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptBehavior {
    /// The call is asked to stop.
    Cancel,
    /// The call finishes before the session moves on.
    #[default]
    Block,
}

/// How many calls of a turn run beside this one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Concurrency {
    /// Others may run beside it.
    #[default]
    Shared,
    /// It runs alone: it waits for those before it, and those after it wait.
    Exclusive,
}

/// A bound on how many calls run at once on a node, over all of its sessions. Tools whose pools
/// have one name share it. A call that finds the pool full waits in it, and counts as started only
/// when it leaves.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// What it is called, also in metrics: a server or a tool, nothing that a caller sends.
    pub name: String,
    /// How many calls run at once, at least 1.
    pub limit: u32,
}

impl Pool {
    /// How the names of pools begin whose places are offered by workers. Such a pool has room
    /// only while a worker asks for jobs, so its calls are queued until then.
    pub const WORKERS: &str = "worker/";

    /// The pool in which the calls of a tool wait for a worker.
    pub fn of_workers(tool: &ToolName) -> Self {
        Self { name: format!("{}{tool}", Self::WORKERS), limit: u32::MAX }
    }

    /// Returns whether workers offer the places of a pool with this name.
    pub fn is_of_workers(name: &str) -> bool {
        name.starts_with(Self::WORKERS)
    }
}

/// Whether a tool speaks before it is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Streaming {
    /// One final result.
    #[default]
    Final,
    /// Progress before the final result.
    Progress,
}

/// Something a tool's implementation can do beside running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hook {
    /// Shows what a call would do, before approval.
    Preview,
    /// Finds out whether an interrupted call took effect.
    Verify,
}

/// Whether a definition is offered to models.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Advertised and callable.
    #[default]
    Active,
    /// Advertised only where a session's exposure names it.
    Unlisted,
    /// Callable with a warning, no longer advertised.
    Deprecated,
    /// Refused.
    Removed,
}

/// How much a call matters in the real world, whatever it does technically (document 001).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consequence {
    /// No real-world impact.
    Low,
    /// Could influence a decision.
    Medium,
    /// Trades, account changes, deletions.
    High,
}

/// An argument that the runtime supplies and the model never sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Injected {
    /// The name under which the tool receives it.
    pub name: String,
    /// What is supplied.
    pub kind: InjectedKind,
}

/// What the runtime can supply (document 003, "Schema Rules").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InjectedKind {
    /// The current run's context.
    RunContext,
    /// The session's id.
    ThreadId,
    /// The current turn's id.
    RunId,
    /// Application state.
    State,
    /// A store.
    Store,
    /// The event emitter.
    Events,
    /// The progress stream.
    Stream,
    /// The cancellation handle.
    Cancellation,
    /// A secret or an authenticated client.
    Secret,
}

/// When a failed attempt is made again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// Attempts in all; 1 means never again.
    pub max_attempts: u32,
    /// The wait before the second attempt; doubled for each further one.
    pub backoff: Millis,
    /// The longest wait.
    pub backoff_max: Millis,
    /// The errors worth another attempt.
    pub on: BTreeSet<ErrorClass>,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            max_attempts: 1,
            backoff: Millis(200),
            backoff_max: Millis(30_000),
            on: BTreeSet::from([
                ErrorClass::Timeout,
                ErrorClass::Upstream,
                ErrorClass::RateLimited,
            ]),
        }
    }
}

impl Retry {
    /// Returns how long to wait after `attempt` failed with `class`, or `None` to give up.
    ///
    /// Without jitter: the core has no randomness, the driver may add some.
    pub fn wait_after(&self, attempt: u32, class: ErrorClass) -> Option<Millis> {
        if attempt >= self.max_attempts || !self.on.contains(&class) {
            return None;
        }
        let factor = 1u64.checked_shl(attempt.saturating_sub(1)).unwrap_or(u64::MAX);
        Some(Millis(self.backoff.0.saturating_mul(factor)).min(self.backoff_max))
    }
}

/// How long a result stays in the model's context (document 004's neighbours).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "mode")]
pub enum Retention {
    /// So many turns.
    Age {
        /// The number of turns.
        turns: u32,
    },
    /// The newest results of this tool.
    Count {
        /// The number of results.
        results: u32,
    },
    /// For the whole session.
    NeverEvict,
}

impl Default for Retention {
    fn default() -> Self {
        Self::Age { turns: 6 }
    }
}

/// Which arguments are secret: run as given, recorded and shown masked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Redaction {
    /// The places to mask.
    pub secret: Vec<JsonPointer>,
}

impl Redaction {
    /// What stands in the place of a secret.
    pub const MASK: &'static str = "[redacted]";

    /// Returns the arguments as they may be recorded and shown.
    pub fn record_view(&self, arguments: &Map<String, Value>) -> Map<String, Value> {
        let mut view = arguments.clone();
        for pointer in &self.secret {
            pointer.replace(&mut view, Value::String(Self::MASK.to_owned()));
        }
        view
    }
}

/// How a call is shown to a person.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Display {
    /// A short title instead of the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// A sentence under the title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The call that takes another one back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Undo {
    /// The compensating tool.
    pub tool: ToolName,
    /// Where its arguments come from.
    pub arguments: BTreeMap<String, UndoSource>,
    /// How long after the call it may be used.
    pub window: Millis,
}

/// Where one argument of a compensating call comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoSource {
    /// A place in the original arguments.
    Argument(JsonPointer),
    /// A place in the original result.
    Result(JsonPointer),
    /// A fixed value.
    Literal(Value),
}

/// What a tool does, when to use it, and when not (document 001's routing contract).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Routing {
    /// The action.
    pub does: String,
    /// The trigger condition.
    pub use_when: String,
    /// Near misses and the tool that serves them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_for: Vec<NotFor>,
    /// The data or computation behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// A near miss of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotFor {
    /// The case that does not belong here.
    pub case: String,
    /// The tool that serves it.
    #[serde(rename = "use")]
    pub instead: ToolName,
}

/// A semantic version of a definition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version {
    /// Changed when the schema changes.
    pub major: u32,
    /// Changed when the wording changes.
    pub minor: u32,
    /// Changed when a bug is fixed.
    pub patch: u32,
    /// A pre-release tag, without its dash.
    pub pre: Option<Box<str>>,
}

impl Default for Version {
    fn default() -> Self {
        Self { major: 1, minor: 0, patch: 0, pre: None }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        self.pre.iter().try_for_each(|pre| write!(f, "-{pre}"))
    }
}

/// A text that is not a semantic version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a version like `1.4.0`, found `{found}`")]
pub struct VersionError {
    found: String,
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let (core, pre) = match text.split_once('-') {
            Some((core, pre)) => (core, Some(pre)),
            None => (text, None),
        };
        let mut numbers = core.split('.').map(|part| {
            let plain = part == "0" || !part.starts_with('0');
            plain.then(|| part.parse::<u32>().ok()).flatten()
        });
        let mut next = || numbers.next().flatten();
        let version = match (next(), next(), next(), numbers.next()) {
            (Some(major), Some(minor), Some(patch), None) => {
                Some(Self { major, minor, patch, pre: pre.map(Into::into) })
            }
            _ => None,
        };
        let tag = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        version
            .filter(|_| pre.is_none_or(|pre| !pre.is_empty() && pre.chars().all(tag)))
            .ok_or_else(|| VersionError { found: text.chars().take(40).collect() })
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // S3-38: the declared attempts and classes decide, and nothing else.
    #[test]
    fn s3_38_only_declared_errors_are_tried_again_with_a_growing_wait() {
        let retry = Retry { max_attempts: 4, backoff_max: Millis(700), ..Retry::default() };
        assert_eq!(retry.wait_after(1, ErrorClass::Upstream), Some(Millis(200)));
        assert_eq!(retry.wait_after(2, ErrorClass::Upstream), Some(Millis(400)));
        assert_eq!(retry.wait_after(3, ErrorClass::Upstream), Some(Millis(700)));
        assert_eq!(retry.wait_after(4, ErrorClass::Upstream), None);
        assert_eq!(retry.wait_after(1, ErrorClass::InvalidArgs), None);
        assert_eq!(Retry::default().wait_after(1, ErrorClass::Upstream), None);
        let long = Retry { max_attempts: u32::MAX, ..Retry::default() };
        assert_eq!(long.wait_after(90, ErrorClass::Timeout), Some(Millis(30_000)));
    }

    // S3-34: two views of the arguments.
    #[test]
    fn s3_34_a_secret_argument_is_masked_in_the_record_view() {
        let redaction = Redaction { secret: vec!["/auth/token".parse().unwrap()] };
        let arguments = json!({"auth": {"token": "sk-1", "user": "ann"}});
        let view = redaction.record_view(arguments.as_object().unwrap());
        assert_eq!(Value::Object(view), json!({"auth": {"token": "[redacted]", "user": "ann"}}));
    }

    // S1-13: versions are semantic.
    #[test]
    fn s1_13_versions_are_semantic() {
        for good in ["1.4.0", "0.0.1", "2.0.0-beta.1"] {
            assert_eq!(good.parse::<Version>().unwrap().to_string(), good);
        }
        for bad in ["", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.x", "1.2.3-", "1.2.3-é"] {
            assert!(bad.parse::<Version>().is_err(), "{bad}");
        }
    }

    // S2-2, S2-4, S4-1: closed vocabularies with their defaults.
    #[test]
    fn s2_2_s2_4_s4_1_unknown_words_are_refused_with_the_known_ones() {
        let check = |error: serde_json::Error, known: &str| {
            assert!(error.to_string().contains(known), "{error}");
        };
        check(
            serde_json::from_str::<Ownership>("\"vendor\"").unwrap_err(),
            "`managed`, `mcp`, `custom`",
        );
        check(
            serde_json::from_str::<InterruptBehavior>("\"stop\"").unwrap_err(),
            "`cancel` or `block`",
        );
        check(serde_json::from_str::<Executor>("\"sub_agent\"").unwrap_err(), "`provider`");
        assert_eq!(Executor::default(), Executor::Server);
    }
}
