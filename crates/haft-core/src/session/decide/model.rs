//! The model's answers.

use std::sync::Arc;

use serde_json::Value;

use super::Draft;
use super::attempt::bounded;
use crate::id::{CallId, ProviderCallId};
use crate::json::{self, DEPTH_MAX};
use crate::outcome::{CallResult, ErrorClass, Failure};
use crate::session::effect::Effect;
use crate::session::event::{Event, TurnEnding};
use crate::session::input::{
    AnswerDetails, ContextSummarised, MODEL_ASKS_MAX, ModelAnswered, ModelFailed, ProviderResult,
    Returned,
};
use crate::session::refusal::{Refusal, Stale};
use crate::session::state::{Activity, Phase};
use crate::session::summary::Summary;

impl Draft {
    pub(super) fn take_answer(&mut self, answer: ModelAnswered) -> Result<(), Refusal> {
        self.require_thinking(answer.turn, answer.attempt)?;
        self.refuse_duplicates(&answer.calls)?;
        let open = self.require_open()?;
        let earlier = self.calls_where(|call| matches!(call.phase, Phase::AtProvider { .. }));
        let AnswerDetails { usage, provider_meta, directive, context } = answer.details;
        let unchanged = open.advertised.as_deref() == Some(&*answer.advertised);
        self.emit(Event::TurnAnswered {
            turn: answer.turn,
            content: answer.content,
            advertised: (!unchanged).then(|| answer.advertised.iter().cloned().collect()),
            narrowed: answer.narrowed,
            usage,
            provider_meta: provider_meta.filter(|meta| !json::is_deeper_than(meta, DEPTH_MAX)),
            context,
        })?;
        if let Some(directive) = directive {
            self.follow_directive(answer.turn, directive)?;
        }
        for proposal in answer.calls {
            self.admit(proposal, Some(&answer.advertised))?;
        }
        for result in answer.provider_results {
            self.take_provider_result(result)?;
        }
        for call in earlier {
            if self.call(call)?.phase.is_open() {
                let message = "the provider never gave a result for this call";
                self.fail(call, Failure::new(ErrorClass::Upstream, message))?;
            }
        }
        Ok(())
    }

    /// A summary is recorded before the model is asked with it. Each covers more than the one
    /// before, so that this ends.
    pub(super) fn take_summary(&mut self, summarised: ContextSummarised) -> Result<(), Refusal> {
        let ContextSummarised { turn, attempt, summary } = summarised;
        self.require_thinking(turn, attempt)?;
        if !self.require_open()?.takes(&summary, turn) {
            let max = Summary::TEXT_MAX;
            let message = format!(
                "expected a summary of 1 to {max} bytes that covers more than the one before and \
                 nothing of turn {turn}, found {} bytes through turn {}",
                summary.text.len(),
                summary.through_turn
            );
            return Err(Refusal::Misfit { message });
        }
        self.emit(Event::ContextSummarised { summary: Arc::new(summary) })?;
        self.effects.push(Effect::RunModel { turn, attempt });
        Ok(())
    }

    pub(super) fn take_model_failure(&mut self, failed: ModelFailed) -> Result<(), Refusal> {
        let ModelFailed { turn, attempt, failure, broke_off } = failed;
        self.require_thinking(turn, attempt)?;
        if broke_off && attempt < MODEL_ASKS_MAX {
            let attempt = attempt + 1;
            self.emit(Event::TurnRetried { turn, attempt, failure: Some(failure) })?;
            self.effects.push(Effect::RunModel { turn, attempt });
            return Ok(());
        }
        for call in self.calls_where(|call| call.phase.is_open()) {
            let message = "the provider's response ended before it gave a result for this call";
            self.fail(call, Failure::new(ErrorClass::Upstream, message))?;
        }
        let ending = TurnEnding::Failed { failure };
        self.emit(Event::TurnEnded { turn, ending })
    }

    fn require_thinking(&self, turn: u32, attempt: u32) -> Result<(), Refusal> {
        let open = self.require_open()?;
        if open.turn == turn && open.activity == (Activity::Thinking { attempt }) {
            Ok(())
        } else {
            Err(Refusal::Stale(Stale::OtherAttempt))
        }
    }

    fn take_provider_result(&mut self, given: ProviderResult) -> Result<(), Refusal> {
        match self.provider_call(&given.provider_id) {
            Some(call) => {
                let deep = |meta: &Value| json::is_deeper_than(meta, DEPTH_MAX);
                let meta = given.meta.filter(|meta| !deep(meta));
                self.finish(call, bounded(Returned::from(given.result)), meta)
            }
            None => self.emit(Event::ProviderResultIgnored { provider_id: given.provider_id }),
        }
    }

    fn provider_call(&self, provider_id: &ProviderCallId) -> Option<CallId> {
        let calls = self.state.as_open()?.calls();
        let mut open = calls.filter(|call| matches!(call.phase, Phase::AtProvider { .. }));
        open.find(|call| call.provider_id == *provider_id).map(|call| call.id)
    }

    /// Ends a call that did not give what it should have.
    pub(super) fn fail(&mut self, call: CallId, failure: Failure) -> Result<(), Refusal> {
        self.finish(call, Returned::from(CallResult::Err(failure)), None)
    }
}
