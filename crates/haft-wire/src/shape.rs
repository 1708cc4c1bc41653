//! What a dialect is to this crate: six plain functions, without the extension member.

use haft_core::tool::Definition;
use haft_core::{
    CallId, CallResult, Directives, Outcome, Provenance, ProviderCallId, RequestedCall, Timestamp,
    ToolName, Trust,
};
use serde_json::{Map, Value};

use crate::dialect::{Dialect, Reading};
use crate::error::{Kind, LiftError, ProjectError};
use crate::fields::{Fields, Place, describe};

/// One dialect's own words. The extension member is added and taken off outside.
pub(crate) trait Shape: Sync {
    fn project_definition(&self, tool: &Definition) -> Result<Map<String, Value>, ProjectError>;
    fn lift_definition(&self, fields: Fields) -> Result<Definition, LiftError>;
    fn project_call(&self, call: &RequestedCall) -> Map<String, Value>;
    fn lift_call(&self, fields: Fields) -> Result<RequestedCall, LiftError>;
    fn project_result(&self, outcome: &Outcome, provider_id: &ProviderCallId) -> Value;
    fn lift_result(&self, body: Value, lifting: &Lifting<'_>) -> Result<Outcome, LiftError>;
}

/// What the runtime knows about a result before it reads the body.
///
/// None of this is ever taken from the body: whoever ran the tool wrote that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultContext {
    /// The call.
    pub call: CallId,
    /// The id by which the model's provider knows the call.
    pub provider_id: ProviderCallId,
    /// The tool.
    pub tool: ToolName,
    /// Which attempt this is the result of.
    pub attempt: u32,
    /// When the attempt started.
    pub started_at: Timestamp,
    /// When its result arrived.
    pub finished_at: Timestamp,
    /// Who ran the tool, and whether it is taken at its word.
    pub provenance: Provenance,
}

impl ResultContext {
    /// The context in which an outcome came to be.
    pub fn of(outcome: &Outcome, provider_id: ProviderCallId) -> Self {
        Self {
            call: outcome.call,
            provider_id,
            tool: outcome.tool.clone(),
            attempt: outcome.attempt,
            started_at: outcome.started_at,
            finished_at: outcome.finished_at,
            provenance: outcome.provenance,
        }
    }
}

/// A result on its way up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lifting<'a> {
    pub(crate) dialect: Dialect,
    pub(crate) context: &'a ResultContext,
    pub(crate) reading: Reading,
}

impl Lifting<'_> {
    /// Returns the place of the whole body.
    pub(crate) fn place(&self) -> Place {
        Place::top(self.dialect, Kind::Result)
    }

    /// Expects the body to be an object.
    pub(crate) fn fields(&self, body: Value) -> Result<Fields, LiftError> {
        self.place().fields(body)
    }

    /// Puts together the outcome that the body and the context make.
    pub(crate) fn outcome(
        &self,
        result: CallResult,
        directives: Directives,
        extra: Map<String, Value>,
    ) -> Outcome {
        let context = self.context;
        Outcome {
            call: context.call,
            tool: context.tool.clone(),
            attempt: context.attempt,
            started_at: context.started_at,
            finished_at: context.finished_at,
            result,
            directives,
            provenance: context.provenance,
            provider_meta: None,
            extra,
        }
    }

    /// Checks that a body names the tool that was called.
    pub(crate) fn check_tool(
        &self,
        fields: &mut Fields,
        key: &'static str,
    ) -> Result<(), LiftError> {
        let found = fields.string(key)?;
        if found == self.context.tool.as_str() {
            return Ok(());
        }
        let expected = format!("the called tool's name `{}`", self.context.tool);
        Err(fields.place().at(key).error(expected, describe(&Value::String(found))))
    }

    /// Checks that a body names the call that was made.
    pub(crate) fn check_call(
        &self,
        fields: &mut Fields,
        key: &'static str,
    ) -> Result<(), LiftError> {
        let found = fields.string(key)?;
        if found == self.context.provider_id.as_str() {
            return Ok(());
        }
        let expected = format!("the call's id `{}`", self.context.provider_id.as_str());
        Err(fields.place().at(key).error(expected, describe(&Value::String(found))))
    }

    /// Returns whether a body may point at stored artifacts: what an outsider names may be
    /// somebody else's.
    pub(crate) fn may_name_artifacts(&self) -> bool {
        self.reading == Reading::Own || self.context.provenance.trust == Trust::Trusted
    }
}
