//! A model behind a provider's API.

use std::collections::BTreeMap;
use std::sync::Mutex;

use haft_core::session::{ContextUse, Counted, Summary, Usage};
use haft_core::tool::Retention;
use haft_core::{ContentBlock, Failure, ToolName};
use haft_runtime::registry::Advertised;
use haft_runtime::{Live, Model, ModelAnswer, ModelError, ModelRequest, ToolFuture};
use serde_json::{Map, Value, json};
use tracing::Instrument;

use crate::directive::{self, UpToDirective};
use crate::memory::Memory;
use crate::provider::{Hear, Provider, ProviderConfig, ProviderError, Reply};
use crate::request::{self, CallStyle, Offer};
use crate::tokens::{self, Correction};
use crate::transcript::{Budget, History, Item, Pressure, Transcript, View};
use crate::{spans, text_calls};

/// Which model answers, and what it is told.
#[derive(Debug, Clone)]
pub struct ModelConfig {
    /// How its provider is reached.
    pub provider: ProviderConfig,
    /// Its name there.
    pub model: String,
    /// What it is told before everything else, unless the session's agent says something.
    pub instructions: Option<String>,
    /// How long an answer may be.
    pub output_tokens_max: Option<u32>,
    /// How much of the history it is shown.
    pub budget: Budget,
    /// What is done when the history is more than that.
    pub overflow: Overflow,
    /// Whether it may direct its own loop.
    pub proactive: Proactive,
    /// How it asks for calls.
    pub calls: CallStyle,
    /// The tools that its provider runs, in the provider's own words, by the name under which
    /// they are declared here.
    pub provider_tools: BTreeMap<ToolName, Value>,
    /// Further members of every request, in the provider's own words, such as `thinking`.
    pub extra: Map<String, Value>,
}

/// What is done when a history is more than its model may be shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Overflow {
    /// The model puts the oldest turns into a few words; when that fails, they are left out.
    #[default]
    Summarise,
    /// The oldest parts are left out.
    LeaveOut,
}

/// Whether a model may direct its own loop: come back by itself, and keep what it has learnt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Proactive {
    /// It may not.
    #[default]
    Off,
    /// By a directive at the end of its answers.
    Directed,
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
            overflow: Overflow::default(),
            proactive: Proactive::default(),
            calls: CallStyle::default(),
            provider_tools: BTreeMap::new(),
            extra: Map::new(),
        }
    }
}

/// A model that is asked through its provider's API.
#[derive(Debug)]
pub struct ProviderModel {
    config: ModelConfig,
    provider: Provider,
    memory: Memory,
}

impl ProviderModel {
    /// Takes a model as configured; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// As [`Provider::new`].
    pub fn new(config: ModelConfig) -> Result<Self, ProviderError> {
        let provider = Provider::new(config.provider.clone())?;
        Ok(Self { config, provider, memory: Memory::default() })
    }

    pub(crate) fn config(&self) -> &ModelConfig {
        &self.config
    }

    async fn recall(&self, request: &ModelRequest) -> Result<History, Failure> {
        self.memory.recall(request.session, &request.open, &request.log).await
    }

    async fn ask(&self, request: ModelRequest) -> Result<ModelAnswer, ModelError> {
        let mut history = self.recall(&request).await?;
        let Question { offer, body, context } = self.question(&request, &mut history);
        self.memory.keep(request.session, history);
        let aloud = Mutex::new(UpToDirective::default());
        let hear = |piece: &str| self.tell(&request, &aloud, piece);
        let reply = self.exchange(&request, &body, &hear).await?;
        let usage = usage(&reply, &body);
        let id = format!("text_{}_{}", request.turn, request.attempt);
        let (usage, context) = (Some(usage), Some(context));
        Ok(ModelAnswer { usage, context, ..self.answer_of(reply, &offer, &id) })
    }

    fn question(&self, request: &ModelRequest, history: &mut History) -> Question {
        let correction = history.correction();
        let budget = correction.estimated(self.config.budget);
        let retention = |name: &str| retention(&request.advertised, name);
        let mut shown = history.view(&View { turn: request.turn, budget, retention: &retention });
        let has = |tool: &str| request.advertised.find(tool).is_ok();
        let pressure = Pressure::of(&shown, budget);
        let mut context = context_use(&shown, self.config.budget, correction);
        let notes = pressure.note(has).into_iter().chain(request.notes.iter().cloned());
        shown.items.extend(notes.map(|text| Item::Note { text }));
        let toolset = &request.open.config.toolset;
        let api = self.provider.api();
        let offer = Offer::new(api, &request.advertised, toolset, &self.config.provider_tools);
        let agent = request.open.config.agent.as_ref();
        let told = agent.and_then(|agent| agent.instructions.as_deref());
        let instructions = request::instructions(&self.config, told, &offer);
        let tools = offer.tokens();
        context.tools = correction.counted(tools) as u64;
        context.estimate = (shown.tokens() + tools + tokens::count(&instructions)) as u64;
        let body = request::body(&self.config, &instructions, &shown, &offer);
        Question { offer, body, context }
    }

    /// Sends a request, within its span.
    pub(crate) async fn exchange(
        &self,
        request: &ModelRequest,
        body: &Value,
        hear: Hear<'_>,
    ) -> Result<Reply, ModelError> {
        let vendor = self.provider.api().vendor();
        let span = spans::chat(vendor, &self.config.model, request.session);
        let asked = self.provider.ask_aloud(body, &request.stop, hear);
        let answered = asked.instrument(span.clone()).await;
        spans::record(&span, &answered);
        answered
    }

    /// Tells whoever listens what the model says. Calls that stand in its text are not told.
    fn tell(&self, request: &ModelRequest, aloud: &Mutex<UpToDirective>, piece: &str) {
        if request::envelope(&self.config).is_some() {
            return;
        }
        let text = match (self.config.proactive, aloud.lock()) {
            (Proactive::Directed, Ok(mut aloud)) => aloud.next(piece),
            (Proactive::Off, _) | (Proactive::Directed, Err(_)) => piece.to_owned(),
        };
        if !text.is_empty() {
            let ModelRequest { session, turn, attempt, .. } = *request;
            request.live.send(Live::Text { session, turn, attempt, text });
        }
    }

    fn answer_of(&self, reply: Reply, offer: &Offer, id: &str) -> ModelAnswer {
        let Reply { mut text, mut calls, provider_results, kept, .. } = reply;
        let directive = match self.config.proactive {
            Proactive::Off => None,
            Proactive::Directed => {
                let directive;
                (text, directive) = directive::read(&text);
                directive
            }
        };
        if let Some(envelope) = request::envelope(&self.config) {
            (text, calls) = text_calls::read(&text, envelope, id);
        }
        for call in &mut calls {
            call.name = offer.names.canonical(std::mem::take(&mut call.name));
        }
        let content = if text.is_empty() { vec![] } else { vec![ContentBlock::Text { text }] };
        let vendor = self.provider.api().vendor().as_str();
        let provider_meta = (!kept.is_empty()).then(|| json!({ vendor: kept }));
        ModelAnswer {
            content,
            calls,
            provider_results,
            provider_meta,
            directive,
            ..ModelAnswer::default()
        }
    }
}

/// What a model is sent.
struct Question {
    offer: Offer,
    body: Value,
    context: ContextUse,
}

fn context_use(shown: &Transcript, budget: Budget, correction: Correction) -> ContextUse {
    let left_out = shown.items.iter().map(|item| match item {
        Item::LeftOut { items } => *items,
        _ => 0,
    });
    let parts = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    ContextUse {
        budget: budget.tokens as u64,
        history: correction.counted(shown.tokens()).min(budget.tokens) as u64,
        tools: 0,
        estimate: 0,
        shown: parts(shown.items.len()),
        left_out: parts(left_out.sum()),
    }
}

/// How long the results of a tool stay in view.
pub(crate) fn retention(advertised: &Advertised, name: &str) -> Retention {
    match advertised.find(name) {
        Ok(tool) => tool.spec().retention,
        Err(_) => Retention::default(),
    }
}

/// What an answer cost: by the provider's count, or by ours when it does not say.
pub(crate) fn usage(reply: &Reply, body: &Value) -> Usage {
    let theirs = reply.usage;
    if let (Some(input), Some(output)) = (theirs.input, theirs.output) {
        let cache_read = theirs.cache_read.unwrap_or(0);
        return Usage { input, output, cache_read, counted: Counted::Provider };
    }
    let count = |text: &str| tokens::count(text) as u64;
    let calls: u64 = reply.calls.iter().map(|call| count(&call.arguments)).sum();
    Usage {
        input: theirs.input.unwrap_or_else(|| count(&body.to_string())),
        output: theirs.output.unwrap_or_else(|| count(&reply.text) + calls),
        cache_read: 0,
        counted: Counted::Haft,
    }
}

impl Model for ProviderModel {
    fn answer(&self, request: ModelRequest) -> ToolFuture<'_, Result<ModelAnswer, ModelError>> {
        Box::pin(self.ask(request))
    }

    fn summarise<'a>(&'a self, request: &'a ModelRequest) -> ToolFuture<'a, Option<Summary>> {
        Box::pin(async move {
            if self.config.overflow != Overflow::Summarise {
                return None;
            }
            let mut history = self.recall(request).await.ok()?;
            let summary = self.shorten(request, &mut history).await;
            self.memory.keep(request.session, history);
            summary
        })
    }
}
