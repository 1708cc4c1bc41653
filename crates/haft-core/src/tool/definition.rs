//! The canonical definition of a tool, and the type that only a sound one can become.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::behaviour::{
    Concurrency, Consequence, Display, Executor, Gate, Hook, Injected, InterruptBehavior,
    Ownership, Pool, Precondition, Redaction, Retention, Retry, Routing, Status, Streaming, Undo,
    Version,
};
use super::contract::Contract;
use super::cost::Cost;
use super::facets::{Category, Facets, Mode, ResolvedFacets};
use super::schema::Schema;
use super::soundness;
use crate::name::{ToolAlias, ToolName};
use crate::time::Millis;

/// Everything that is declared about a tool: plain data, not yet checked.
///
/// It becomes a [`ToolSpec`] through [`ToolSpec::new`], which is the only thing the rest of Haft
/// takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The canonical name.
    pub name: ToolName,
    /// What the model reads.
    pub description: String,
    /// The arguments that the model may choose.
    pub input_schema: Schema,
    /// What each provider calls the tool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub aliases: BTreeMap<String, ToolAlias>,
    /// The definition's version.
    #[serde(default, skip_serializing_if = "is_default")]
    pub version: Version,
    /// Whether it is offered.
    #[serde(default, skip_serializing_if = "is_default")]
    pub status: Status,
    /// Words to filter by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Tools that this one calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<ToolName>,
    /// The description in parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<Routing>,
    /// What a result looks like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Schema>,
    /// Arguments that the runtime supplies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub injected: Vec<Injected>,
    /// Who owns the capability.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ownership: Ownership,
    /// Who produces the result.
    #[serde(default, skip_serializing_if = "is_default")]
    pub executor: Executor,
    /// Whether a person approves each call.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gate: Gate,
    /// What must hold before it runs, whoever approves.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub preconditions: BTreeSet<Precondition>,
    /// What it does to the world.
    #[serde(default, skip_serializing_if = "is_default")]
    pub facets: Facets,
    /// An explicit mode, over the one that the facets or the name give.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// An explicit category, over the one that the facets give.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<Category>,
    /// How much a call matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consequence: Option<Consequence>,
    /// What an interrupt does to a running call.
    #[serde(default, skip_serializing_if = "is_default")]
    pub interrupt: InterruptBehavior,
    /// How long one attempt may run.
    #[serde(default = "exec_timeout_default", skip_serializing_if = "is_exec_timeout_default")]
    pub exec_timeout: Millis,
    /// How long a call may wait for someone.
    #[serde(default = "suspend_ttl_default", skip_serializing_if = "is_suspend_ttl_default")]
    pub suspend_ttl: Millis,
    /// When a failed attempt is made again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retry: Retry,
    /// The most that a result puts before the model; the rest becomes an artifact.
    #[serde(default = "max_result_default", skip_serializing_if = "is_max_result_default")]
    pub max_result_bytes: u64,
    /// What runs beside it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub concurrency: Concurrency,
    /// The bounds on how many of its calls run at once, over all sessions of a node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<Pool>,
    /// Whether it reports progress.
    #[serde(default, skip_serializing_if = "is_default")]
    pub streaming: Streaming,
    /// How long a result stays in context.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retention: Retention,
    /// Which arguments are secret.
    #[serde(default, skip_serializing_if = "is_default")]
    pub redaction: Redaction,
    /// How a call is shown.
    #[serde(default, skip_serializing_if = "is_default")]
    pub display: Display,
    /// What a call costs, for a tool that may spend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// What takes a call back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<Undo>,
    /// What the implementation can do beside running.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub hooks: BTreeSet<Hook>,
}

/// 15 s, document 001.
const EXEC_TIMEOUT: Millis = Millis::from_secs(15);
/// 300 s, document 004's neighbours.
const SUSPEND_TTL: Millis = Millis::from_secs(300);
/// 64 KiB: what a model reads without losing the thread.
const MAX_RESULT_BYTES: u64 = 64 << 10;

fn exec_timeout_default() -> Millis {
    EXEC_TIMEOUT
}

fn suspend_ttl_default() -> Millis {
    SUSPEND_TTL
}

fn max_result_default() -> u64 {
    MAX_RESULT_BYTES
}

fn is_exec_timeout_default(value: &Millis) -> bool {
    *value == EXEC_TIMEOUT
}

fn is_suspend_ttl_default(value: &Millis) -> bool {
    *value == SUSPEND_TTL
}

fn is_max_result_default(value: &u64) -> bool {
    *value == MAX_RESULT_BYTES
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Definition {
    /// Starts a definition with every other field at its default.
    pub fn new(name: ToolName, description: impl Into<String>, input_schema: Schema) -> Self {
        Self {
            name,
            description: description.into(),
            input_schema,
            aliases: BTreeMap::new(),
            version: Version::default(),
            status: Status::default(),
            tags: Vec::new(),
            depends_on: Vec::new(),
            routing: None,
            output_schema: None,
            injected: Vec::new(),
            ownership: Ownership::default(),
            executor: Executor::default(),
            gate: Gate::default(),
            preconditions: BTreeSet::new(),
            facets: Facets::default(),
            mode: None,
            category: None,
            consequence: None,
            interrupt: InterruptBehavior::default(),
            exec_timeout: EXEC_TIMEOUT,
            suspend_ttl: SUSPEND_TTL,
            retry: Retry::default(),
            max_result_bytes: MAX_RESULT_BYTES,
            concurrency: Concurrency::default(),
            pools: Vec::new(),
            streaming: Streaming::default(),
            retention: Retention::default(),
            redaction: Redaction::default(),
            display: Display::default(),
            cost: None,
            undo: None,
            hooks: BTreeSet::new(),
        }
    }

    /// Decides every facet that is left unset.
    pub fn resolved_facets(&self) -> ResolvedFacets {
        self.facets.resolve(&self.name, self.mode)
    }

    /// Returns the declared category, else the one that the facets give.
    pub fn effective_category(&self) -> Category {
        self.category.unwrap_or_else(|| self.resolved_facets().category())
    }
}

/// A sound definition: whoever holds one knows that its fields go together.
#[derive(Clone)]
pub struct ToolSpec(Arc<Sound>);

struct Sound {
    definition: Definition,
    facets: ResolvedFacets,
    contract: Arc<Contract>,
}

impl ToolSpec {
    /// Checks a definition as a whole.
    ///
    /// # Errors
    ///
    /// When fields contradict each other; the error lists every problem with the field's name
    /// and what to do.
    pub fn new(definition: Definition) -> Result<Self, DefinitionError> {
        let facets = definition.resolved_facets();
        let problems = soundness::problems(&definition, &facets);
        if !problems.is_empty() {
            return Err(DefinitionError { tool: definition.name, problems });
        }
        let contract = Arc::new(Contract::of(&definition, &facets));
        Ok(Self(Arc::new(Sound { definition, facets, contract })))
    }

    /// Returns the facets with every field decided.
    pub fn facets(&self) -> &ResolvedFacets {
        &self.0.facets
    }

    /// Returns what the session machine needs to know about the tool.
    pub fn contract(&self) -> &Arc<Contract> {
        &self.0.contract
    }
}

impl Deref for ToolSpec {
    type Target = Definition;

    fn deref(&self) -> &Definition {
        &self.0.definition
    }
}

impl fmt::Debug for ToolSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ToolSpec").field(&self.0.definition).finish()
    }
}

impl PartialEq for ToolSpec {
    fn eq(&self, other: &Self) -> bool {
        self.0.definition == other.0.definition
    }
}

/// A definition whose fields do not go together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionError {
    tool: ToolName,
    problems: Vec<Problem>,
}

impl DefinitionError {
    /// Returns the tool's name.
    pub fn tool(&self) -> &ToolName {
        &self.tool
    }

    /// Returns every problem that was found.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl std::error::Error for DefinitionError {}

impl fmt::Display for DefinitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tool `{}` cannot be defined like this", self.tool)?;
        for problem in &self.problems {
            write!(f, "; `{}`: {}, so {}", problem.field, problem.found, problem.fix)?;
        }
        Ok(())
    }
}

/// One thing that is wrong with a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The field to change.
    pub field: &'static str,
    /// What is wrong with it.
    pub found: String,
    /// What to do.
    pub fix: &'static str,
}
