//! A model behind a provider's API.

use std::collections::BTreeMap;

use haft_core::tool::Retention;
use haft_core::{ContentBlock, Failure, ToolName};
use haft_runtime::{Model, ModelAnswer, ModelRequest, ToolFuture};
use serde_json::Value;
use tracing::Instrument;

use crate::provider::{Provider, ProviderConfig, ProviderError, Reply};
use crate::request::{self, CallStyle, Offer};
use crate::transcript::{Budget, Transcript};
use crate::{spans, text_calls};

/// Which model answers, and what it is told.
#[derive(Debug, Clone)]
pub struct ModelConfig {
    /// How its provider is reached.
    pub provider: ProviderConfig,
    /// Its name there.
    pub model: String,
    /// What it is told before everything else.
    pub instructions: Option<String>,
    /// How long an answer may be.
    pub output_tokens_max: Option<u32>,
    /// How much of the history it is shown.
    pub budget: Budget,
    /// How it asks for calls.
    pub calls: CallStyle,
    /// The tools that its provider runs, in the provider's own words, by the name under which
    /// they are declared here.
    pub provider_tools: BTreeMap<ToolName, Value>,
}

impl ModelConfig {
    /// A model with the usual limits and no instructions.
    pub fn new(provider: ProviderConfig, model: impl Into<String>) -> Self {
        Self {
            provider,
            model: model.into(),
            instructions: None,
            output_tokens_max: None,
            budget: Budget::default(),
            calls: CallStyle::default(),
            provider_tools: BTreeMap::new(),
        }
    }
}

/// A model that is asked through its provider's API.
#[derive(Debug)]
pub struct ProviderModel {
    config: ModelConfig,
    provider: Provider,
}

impl ProviderModel {
    /// Takes a model as configured; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// As [`Provider::new`].
    pub fn new(config: ModelConfig) -> Result<Self, ProviderError> {
        let provider = Provider::new(config.provider.clone())?;
        Ok(Self { config, provider })
    }

    async fn ask(&self, request: ModelRequest) -> Result<ModelAnswer, Failure> {
        let ModelRequest { session, log, turn, attempt, open, advertised, stop } = request;
        let mut transcript = Transcript::of(log.events().await?);
        transcript.retain(turn, |name| match advertised.find(name) {
            Ok(tool) => tool.spec().retention,
            Err(_) => Retention::default(),
        });
        transcript.fit(self.config.budget);
        let api = self.provider.api();
        let toolset = &open.config.toolset;
        let offer = Offer::new(api, &advertised, toolset, &self.config.provider_tools);
        let body = request::body(&self.config, &transcript, &offer);
        let span = spans::chat(api.vendor(), &self.config.model, session);
        let answered = self.provider.ask(&body, &stop).instrument(span.clone()).await;
        spans::record(&span, &answered);
        Ok(self.answer_of(answered?, &offer, &format!("text_{turn}_{attempt}")))
    }

    fn answer_of(&self, reply: Reply, offer: &Offer, id: &str) -> ModelAnswer {
        let Reply { mut text, mut calls, provider_results, .. } = reply;
        if let Some(envelope) = request::envelope(&self.config) {
            (text, calls) = text_calls::read(&text, envelope, id);
        }
        for call in &mut calls {
            call.name = offer.names.canonical(std::mem::take(&mut call.name));
        }
        let content = if text.is_empty() { vec![] } else { vec![ContentBlock::Text { text }] };
        ModelAnswer { content, calls, provider_results }
    }
}

impl Model for ProviderModel {
    fn answer(&self, request: ModelRequest) -> ToolFuture<'_, Result<ModelAnswer, Failure>> {
        Box::pin(self.ask(request))
    }
}
