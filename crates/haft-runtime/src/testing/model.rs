//! A model that answers from a script.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use haft_core::{ContentBlock, ErrorClass, Failure, ProviderCallId};
use serde_json::Value;

use crate::model::{AskedCall, Model, ModelAnswer, ModelError, ModelRequest};
use crate::tool::ToolFuture;

/// A model that gives the answers it was told to give, in their order, and fails when it has
/// none left.
#[derive(Debug, Default)]
pub struct QueuedModel {
    answers: Mutex<VecDeque<ModelAnswer>>,
}

impl QueuedModel {
    /// A model with nothing to say yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an answer that only says something.
    #[must_use]
    pub fn says(self, text: &str) -> Self {
        let content = vec![ContentBlock::Text { text: text.to_owned() }];
        self.answers(ModelAnswer { content, ..ModelAnswer::default() })
    }

    /// Adds an answer that asks for calls, all in one turn.
    ///
    /// # Panics
    ///
    /// Never: the ids are made here.
    #[must_use]
    pub fn calls<const N: usize>(self, calls: [(&str, Value); N]) -> Self {
        let n_before = self.lock().len();
        let calls = calls.into_iter().enumerate().map(|(i, (name, arguments))| {
            let id = format!("scripted_{n_before}_{i}");
            let provider_id = ProviderCallId::new(id)
                .unwrap_or_else(|error| unreachable!("a plain text is an id: {error}"));
            AskedCall { provider_id, name: name.to_owned(), arguments: arguments.to_string() }
        });
        let calls = calls.collect();
        self.answers(ModelAnswer { calls, ..ModelAnswer::default() })
    }

    /// Adds an answer.
    #[must_use]
    pub fn answers(self, answer: ModelAnswer) -> Self {
        self.lock().push_back(answer);
        self
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<ModelAnswer>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Model for QueuedModel {
    fn answer(&self, _: ModelRequest) -> ToolFuture<'_, Result<ModelAnswer, ModelError>> {
        let next = self.lock().pop_front();
        let ended = || ModelError::from(Failure::new(ErrorClass::Upstream, "the script is over"));
        Box::pin(async move { next.ok_or_else(ended) })
    }
}
