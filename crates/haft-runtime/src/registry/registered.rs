//! A tool as the registry keeps it: sound, compiled, ready to admit calls.

use std::fmt;
use std::sync::Arc;

use haft_core::JsonPointer;
use haft_core::ToolName;
use haft_core::json::{JsonError, JsonLimits, parse_object};
use haft_core::permission::Exposure;
use haft_core::tool::{Definition, Executor, Redaction, Schema, Status, ToolSpec};
use haft_store::Tenant;
use serde_json::{Map, Value};

use super::error::{Refusal, RegisterError};
use crate::schema::{Reference, Validator, find_references};
use crate::tool::Tool;

/// How much of malformed arguments is kept.
const RAW_BYTES: usize = 4096;

/// A registered tool.
pub struct Registered {
    spec: ToolSpec,
    input: Validator,
    output: Option<Validator>,
    code: Option<Arc<dyn Tool>>,
    /// The tool's place among all that were ever registered; a replacement inherits it.
    pub(super) ordinal: u64,
}

/// Arguments that may be proposed to a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Admitted {
    /// The arguments without what the runtime supplies, whole numbers spelt as integers; they
    /// fit, except where they refer.
    pub arguments: Map<String, Value>,
    /// The places that stand for a part of an artifact, not yet resolved.
    pub references: Vec<Reference>,
    /// Injected arguments that the model tried to supply; they are gone from `arguments`.
    pub forged: Vec<String>,
}

impl Registered {
    pub(super) fn new(
        definition: Definition,
        code: Option<Arc<dyn Tool>>,
        ordinal: u64,
    ) -> Result<Self, RegisterError> {
        let spec = ToolSpec::new(definition)?;
        if spec.executor == Executor::Server && code.is_none() {
            return Err(RegisterError::CodeMissing { tool: spec.name.clone() });
        }
        let compile = |field, schema: &Schema| {
            Validator::compile(schema).map_err(|error| RegisterError::Schema {
                tool: spec.name.clone(),
                field,
                error,
            })
        };
        let input = compile("input_schema", &spec.input_schema)?;
        let output = spec.output_schema.as_ref();
        let output = output.map(|schema| compile("output_schema", schema)).transpose()?;
        Ok(Self { spec, input, output, code, ordinal })
    }

    /// Takes a tool that stands in no registry, and is run elsewhere.
    pub(crate) fn declared(definition: Definition) -> Result<Self, RegisterError> {
        Self::new(definition, None, 0)
    }

    /// Returns the canonical name.
    pub fn name(&self) -> &ToolName {
        &self.spec.name
    }

    /// Returns the tool's place among all that were ever registered.
    pub(crate) fn ordinal(&self) -> u64 {
        self.ordinal
    }

    /// Returns what is declared about the tool.
    pub fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// Returns what checks its arguments.
    pub fn input(&self) -> &Validator {
        &self.input
    }

    /// Returns what checks its results, when it declares how they look.
    pub fn output(&self) -> Option<&Validator> {
        self.output.as_ref()
    }

    /// Returns whose tool it is; `None` if it is everybody's.
    pub fn tenant(&self) -> Option<&Tenant> {
        self.code.as_ref().and_then(|code| code.tenant())
    }

    /// Returns whether a tenant may know of the tool.
    pub fn is_shown_to(&self, tenant: &Tenant) -> bool {
        self.tenant().is_none_or(|owner| owner == tenant)
    }

    /// Returns the code, when calls are run here.
    pub fn code(&self) -> Option<&Arc<dyn Tool>> {
        self.code.as_ref()
    }

    /// Returns whether models are offered the tool without its being named.
    pub fn is_advertised(&self) -> bool {
        self.spec.status == Status::Active
    }

    /// Returns whether the models of sessions with this exposure are offered the tool.
    pub fn is_advertised_to(&self, exposure: &Exposure) -> bool {
        let offered = match self.spec.status {
            Status::Active => true,
            Status::Unlisted => {
                exposure.allow.as_ref().is_some_and(|allow| allow.contains(self.name()))
            }
            Status::Deprecated | Status::Removed => false,
        };
        offered && exposure.permits(self.name())
    }

    /// Returns what a caller should know about the tool's standing.
    pub fn warning(&self) -> Option<String> {
        (self.spec.status == Status::Deprecated)
            .then(|| format!("`{}` is deprecated and will be removed", self.name()))
    }

    /// Admits arguments as a provider streamed them.
    ///
    /// # Errors
    ///
    /// When the text is not one strict JSON object, and as [`Registered::admit`].
    pub fn admit_text(&self, arguments: &[u8]) -> Result<Admitted, Refusal> {
        match parse_object(arguments, JsonLimits::default()) {
            Ok(arguments) => self.admit(arguments),
            Err(error) => Err(self.malformed(arguments, error)),
        }
    }

    /// Admits arguments: takes out what only the runtime may supply, then checks the rest.
    ///
    /// # Errors
    ///
    /// When what is left does not fit the schema, and when the tool is no longer to be called.
    pub fn admit(&self, mut arguments: Map<String, Value>) -> Result<Admitted, Refusal> {
        if self.spec.status == Status::Removed {
            let message = format!("`{}` was removed; use another tool", self.name());
            return Err(Refusal::UnknownTool { message });
        }
        let forged = self.strip(&mut arguments);
        arguments.values_mut().for_each(spell_once);
        let references = find_references(&arguments);
        let places: Vec<JsonPointer> = references.iter().map(|r| r.place.clone()).collect();
        let checked = self.input.check_object(arguments, &places);
        let arguments = checked.map_err(|error| error.without_secrets(&self.spec.redaction))?;
        Ok(Admitted { arguments, references, forged })
    }

    /// Says what is wrong with arguments that cannot be read, and so cannot be masked in part.
    #[cold]
    fn malformed(&self, arguments: &[u8], error: JsonError) -> Refusal {
        let (raw, error) = match self.spec.redaction.secret.is_empty() {
            true => {
                let start = arguments.get(..RAW_BYTES).unwrap_or(arguments);
                (String::from_utf8_lossy(start).into_owned(), error)
            }
            false => (Redaction::MASK.to_owned(), error.without_quotes(Redaction::MASK)),
        };
        let message = format!("the arguments of `{}` cannot be read: {error}", self.name());
        Refusal::Malformed { raw, message }
    }

    fn strip(&self, arguments: &mut Map<String, Value>) -> Vec<String> {
        let injected = self.spec.injected.iter().map(|injected| &injected.name);
        let found: Vec<String> =
            injected.filter(|name| arguments.contains_key(*name)).cloned().collect();
        // The order of what remains is what a person is shown, and `remove` may not keep it.
        arguments.retain(|name, _| !found.contains(name));
        found
    }
}

/// Spells whole numbers as integers. To the schema and to a browser `1.0` is `1`; a tool's code
/// would read it as something else.
fn spell_once(value: &mut Value) {
    /// Up to here every whole float is one integer.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().filter(|float| float.abs() <= EXACT);
            if let Some(whole) = float.filter(|float| float.fract() == 0.0) {
                *number = (whole as i64).into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(spell_once),
        Value::Object(members) => members.values_mut().for_each(spell_once),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered")
            .field("name", self.name())
            .field("status", &self.spec.status)
            .finish_non_exhaustive()
    }
}
