//! The promotion gate: what others share changes only when the session's outcome has passed.
//!
//! A call may ask to be let through without, by `requireOutcomePass: false`. The tools that have
//! this gate are asked about each time, so a person sees and agrees to that too; no agent waives
//! its own gate.

use haft_core::permission::Source;
use haft_core::tool::Precondition;
use haft_runtime::{Opinion, Policy, ToolError, ToolFuture, Wish};
use serde_json::Value;

use crate::hands::Hands;
use crate::sight::Viewer;

/// Judges whether a session's outcome has passed.
#[derive(Debug, Clone)]
pub(crate) struct OutcomeGate {
    hands: Hands,
}

impl OutcomeGate {
    pub(crate) fn new(hands: Hands) -> Self {
        Self { hands }
    }

    async fn closed(&self, wish: Wish<'_>) -> Result<Option<String>, ToolError> {
        let wanted = wish.arguments.record().get("requireOutcomePass").and_then(Value::as_bool);
        if wanted == Some(false) {
            return Ok(None);
        }
        let store = wish.store.ok_or_else(|| ToolError::new("there is no store to look in"))?;
        let viewer = Viewer::at(store, wish.session, Some(self.hands.clone())).await?;
        let mut sight = viewer.look(viewer.own.clone()).await?;
        // What asks to be let through is looked at again when someone agrees, while it waits.
        sight.disregard(&wish.spec.contract().tool, wish.arguments);
        if sight.goal().is_none() && wanted.is_none() {
            return Ok(None);
        }
        let evaluation = sight.assessment().evaluation;
        Ok(evaluation.gate_step().map(|next| {
            format!(
                "the outcome evaluates to `{}`: {}; next: `{}` {}",
                evaluation.status.name(),
                evaluation.summary,
                next.tool,
                next.args
            )
        }))
    }
}

impl Policy for OutcomeGate {
    fn source(&self) -> Source {
        Source::Rule("outcome".to_owned())
    }

    fn judge<'a>(&'a self, _: Wish<'a>) -> ToolFuture<'a, Result<Option<Opinion>, String>> {
        Box::pin(async { Ok(None) })
    }

    fn weighs_arguments(&self) -> bool {
        false
    }

    fn judges(&self, precondition: Precondition) -> bool {
        precondition == Precondition::OutcomePass
    }

    fn unmet<'a>(
        &'a self,
        wish: Wish<'a>,
        precondition: Precondition,
    ) -> ToolFuture<'a, Option<String>> {
        Box::pin(async move {
            if !self.judges(precondition) {
                return None;
            }
            match self.closed(wish).await {
                Ok(closed) => closed,
                Err(error) => Some(format!("whether the outcome has passed is not known: {error}")),
            }
        })
    }
}
