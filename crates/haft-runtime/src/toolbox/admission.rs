//! What a model or a program asks for, checked before the session machine decides about it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use haft_core::permission::{Question, Report, Source, SourceReport, StandingGrant, Verdict};
use haft_core::session::{
    AnswerDetails, Check, Config, ContextSummarised, Event, Input, MODEL_ASKS_MAX, ModelAnswered,
    ModelFailed, Narrowed, Open, Phase, PolicyFacts, Proposal, ProviderResult, SoundCall,
};
use haft_core::tool::{Contract, Executor, ToolSpec};
use haft_core::{
    Actor, Arguments, CallId, ContentBlock, ErrorClass, Failure, ProviderCallId, SessionId,
    ToolName, WakeId,
};
use serde_json::{Map, Value};

use super::Toolbox;
use super::own_tools;
use super::policy::Wish;
use crate::cancellation::CancellationToken;
use crate::fresh::fresh_bits;
use crate::live::Step;
use crate::model::{ModelAnswer, ModelError, ModelRequest, SessionLog};
use crate::registry::{Admitted, Advertised, Refusal, Registered};
use crate::schema::find_references;
use crate::standing::{Ledger, Wanted};
use crate::tool::{Run, Scope};

/// How long to wait before a model is asked again whose first answer broke off.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// How far back the latest message is looked for.
const LOOK_BACK: u32 = 256;

/// A call that is asked for.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) provider_id: ProviderCallId,
    pub(crate) name: String,
    pub(crate) arguments: Given<'a>,
}

/// Arguments as they are given.
#[derive(Debug)]
pub(crate) enum Given<'a> {
    /// The text that a model wrote.
    Text(&'a str),
    /// An object that a program made.
    Object(Map<String, Value>),
}

/// In which session, and on whose behalf, something is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub(crate) session: SessionId,
    pub(crate) opened_by: &'a Actor,
    pub(crate) config: &'a Config,
}

/// A tool, and arguments that fit it.
type Meant = (Arc<Registered>, Map<String, Value>);

impl Toolbox {
    /// Checks name and arguments, and hears the policies.
    pub(crate) async fn propose(&self, asker: Asker<'_>, id: CallId, asked: Asked<'_>) -> Proposal {
        let Asked { provider_id, name, arguments } = asked;
        let check = self.check(asker, id, &name, arguments).await;
        Proposal { id, provider_id, name, check }
    }

    async fn check(&self, asker: Asker<'_>, id: CallId, name: &str, given: Given<'_>) -> Check {
        let Some(registered) = self.tool(&asker.config.toolset, name) else {
            return self.unknown(asker.config, name).into();
        };
        self.live.step(asker.session, id, Step::NameKnown);
        let arguments = match admitted(&registered, given) {
            Ok(arguments) => arguments,
            Err(refusal) => return refusal.into(),
        };
        let stands_for = registered.code().and_then(|code| code.stands_for(&arguments));
        let (registered, arguments) = match stands_for {
            Some((name, arguments)) => match self.meant(asker, &name, arguments) {
                Ok(meant) => meant,
                Err(check) => return *check,
            },
            None => (registered, arguments),
        };
        self.live.step(asker.session, id, Step::ArgumentsFit);
        let spec = registered.spec();
        let sealed = self.sealer.seal(asker.session, arguments, &spec.redaction).await;
        let arguments = match sealed {
            Ok(arguments) => arguments,
            Err(error) => return Check::Invalid { message: error.to_string() },
        };
        let Asker { session, opened_by, config } = asker;
        let store = self.store.as_ref();
        let wish = Wish { session, opened_by, spec, arguments: &arguments, config, store };
        let policy = self.policy_facts(wish).await;
        let policy = own_tools::heard(&asker.config.toolset, &spec.name, policy);
        let policy = self.with_doubt_of_references(policy, &arguments);
        let contract = Arc::clone(spec.contract());
        let grants = self.standing(asker, id, &contract, &arguments, &policy).await;
        Check::Sound(SoundCall { contract, arguments, policy, grants })
    }

    /// Takes a use of a grant beyond the session, for a call about which someone would have to be
    /// asked. Whether it is needed is the machine's to decide.
    async fn standing(
        &self,
        asker: Asker<'_>,
        call: CallId,
        contract: &Contract,
        arguments: &Arguments,
        policy: &PolicyFacts,
    ) -> Vec<StandingGrant> {
        let Asker { session, opened_by, config } = asker;
        let question = Question {
            contract,
            arguments,
            level: config.level,
            profile: config.profile,
            exposure: &config.exposure,
            reports: &policy.reports,
            grants: &[],
            now: self.clock.now(),
        };
        let asks = question.derive().decision == Verdict::Ask
            && !contract.gate.always_asks()
            && contract.executor != Executor::Provider
            && policy.unmet_precondition.is_none();
        let Some(store) = self.store.clone().filter(|_| asks) else { return Vec::new() };
        let round = None;
        let wanted = Wanted { session, call, round, opened_by, config, contract, arguments };
        let shown = Ledger::new(store, self.clock.clone()).take(wanted).await;
        shown.into_iter().collect()
    }

    fn unknown(&self, config: &Config, name: &str) -> Refusal {
        self.offered(config).unknown_as(name, |tool| config.toolset.called(tool))
    }

    /// The call that another one only stands for, checked as if it had been asked for itself.
    fn meant(
        &self,
        asker: Asker<'_>,
        name: &ToolName,
        arguments: Map<String, Value>,
    ) -> Result<Meant, Box<Check>> {
        let Some(registered) = self.tool(&asker.config.toolset, name.as_str()) else {
            return Err(Box::new(self.unknown(asker.config, name.as_str()).into()));
        };
        let arguments = admitted(&registered, Given::Object(arguments))
            .map_err(|refusal| Box::new(Check::from(refusal)))?;
        Ok((registered, arguments))
    }

    /// A policy cannot weigh what an argument only points at, so a person does.
    fn with_doubt_of_references(
        &self,
        mut facts: PolicyFacts,
        arguments: &Arguments,
    ) -> PolicyFacts {
        let weighed = self.policies.iter().any(|policy| policy.weighs_arguments());
        if weighed && !find_references(arguments.record()).is_empty() {
            let reason = "the policies cannot see what the arguments point at".to_owned();
            let report = Report::Says { verdict: Verdict::Ask, reason };
            let source = Source::Rule("arguments by reference".to_owned());
            facts.reports.push(SourceReport { source, report });
        }
        facts
    }

    /// Returns what the operator's floor says about calls of a tool in a session.
    pub(crate) fn floor(&self, spec: &ToolSpec, config: &Config) -> Option<SourceReport> {
        self.policies.floor(spec, config)
    }

    pub(crate) fn policy_sources(&self) -> Vec<Source> {
        self.policies.sources()
    }

    pub(crate) async fn policy_facts(&self, wish: Wish<'_>) -> PolicyFacts {
        self.policies.facts(wish).await
    }

    /// Asks the model and checks what it asks for.
    pub(super) async fn ask_model(
        &self,
        session: SessionId,
        turn: u32,
        attempt: u32,
        open: Arc<Open>,
        stop: CancellationToken,
    ) -> Input {
        let failed =
            |failure| Input::ModelFailed(ModelFailed { turn, attempt, failure, broke_off: false });
        let Some(model) = &self.model else {
            let message = "this node has no model to ask; configure one";
            return failed(Failure::new(ErrorClass::Internal, message));
        };
        let (advertised, narrowed) = self.offer(session, &open).await;
        let mut request = ModelRequest {
            session,
            log: SessionLog::new(self.store.clone(), session),
            turn,
            attempt,
            open: Arc::clone(&open),
            advertised: advertised.clone(),
            notes: Vec::new(),
            stop: stop.clone(),
            live: self.live.clone(),
        };
        if let Some(summary) = model.summarise(&request).await
            && open.takes(&summary, turn)
        {
            return Input::ContextSummarised(ContextSummarised { turn, attempt, summary });
        }
        request.notes = self.notes(&request).await;
        let answer = match model.answer(request).await {
            Ok(answer) => answer,
            Err(error) => return no_answer(turn, attempt, error, &stop).await,
        };
        let details = self.details(&answer);
        let ModelAnswer { content, calls: asked, provider_results, .. } = answer;
        let toolset = &open.config.toolset;
        let asker = Asker { session, opened_by: &open.opened_by, config: &open.config };
        let mut calls = Vec::with_capacity(asked.len());
        for call in asked {
            let Ok(bits) = fresh_bits(self.clock.now()) else {
                let message = "the system gives no randomness for ids";
                return failed(Failure::new(ErrorClass::Internal, message));
            };
            let arguments = Given::Text(&call.arguments);
            let name = toolset.meant(&call.name).to_owned();
            let asked = Asked { provider_id: call.provider_id, name, arguments };
            calls.push(self.propose(asker, CallId::from_bits(bits), asked).await);
        }
        let provider_results = self.provider_results(&open, &calls, provider_results).await;
        let advertised = Arc::clone(advertised.names());
        Input::ModelAnswered(ModelAnswered {
            turn,
            attempt,
            content,
            advertised,
            calls,
            provider_results,
            narrowed,
            details,
        })
    }

    /// Returns what a session may be offered.
    fn offered(&self, config: &Config) -> Advertised {
        self.with_own(self.registry.advertise(&config.exposure), &config.toolset)
    }

    /// What is known about an answer beside what it says. Without randomness there is no wake.
    /// Gathers what the model is told beside the log.
    async fn notes(&self, request: &ModelRequest) -> Vec<String> {
        let Ok(bits) = fresh_bits(self.clock.now()) else { return Vec::new() };
        let (session, turn, attempt) = (request.session, request.turn, request.attempt);
        let (call, actor) = (CallId::from_bits(bits), request.open.opened_by.clone());
        let scope = Scope { session, turn, call, attempt, actor };
        let run = Run { stop: request.stop.clone(), ..Run::unstoppable(scope) };
        let context = self.context(run, self.surroundings.redactor.clone());
        let mut notes = Vec::new();
        for adviser in &self.advisers {
            notes.extend(adviser.notes(request, &context).await);
        }
        notes
    }

    fn details(&self, answer: &ModelAnswer) -> AnswerDetails {
        let now = self.clock.now();
        let fresh = || fresh_bits(now).ok().map(WakeId::from_bits);
        AnswerDetails {
            usage: answer.usage,
            provider_meta: answer.provider_meta.clone(),
            directive: answer.directive.clone().and_then(|directive| directive.at(now, fresh)),
            context: answer.context,
        }
    }

    /// Takes in what the provider ran, each for the call that it will end: of those with its id,
    /// the first that has no result.
    async fn provider_results(
        &self,
        open: &Open,
        proposed: &[Proposal],
        given: Vec<ProviderResult>,
    ) -> Vec<ProviderResult> {
        let earlier = open.calls().filter(|call| matches!(call.phase, Phase::AtProvider { .. }));
        let earlier =
            earlier.map(|call| (&call.provider_id, call.id, &call.contract, &call.arguments));
        let proposed = proposed.iter().filter_map(|proposal| match &proposal.check {
            Check::Sound(SoundCall { contract, arguments, .. })
                if contract.executor == Executor::Provider =>
            {
                Some((&proposal.provider_id, proposal.id, contract, arguments))
            }
            _ => None,
        });
        let mut awaited: Vec<_> = earlier.chain(proposed).collect();
        let mut taken = Vec::with_capacity(given.len());
        for result in given {
            let place = awaited.iter().position(|(id, ..)| **id == result.provider_id);
            let found = place.map(|place| awaited.remove(place)).and_then(
                |(_, call, contract, arguments)| {
                    let registered = self.registry.get(contract.tool.as_str())?;
                    let actor = open.opened_by.clone();
                    let scope =
                        Scope { session: open.session, turn: open.turn, call, attempt: 1, actor };
                    Some((Run::unstoppable(scope), registered, arguments))
                },
            );
            let of =
                found.as_ref().map(|(run, registered, arguments)| (run, &**registered, *arguments));
            taken.push(self.take_in_from_provider(of, result).await);
        }
        taken
    }

    /// Returns what a turn is offered, and why it is less than it might be.
    async fn offer(&self, session: SessionId, open: &Open) -> (Advertised, Vec<Narrowed>) {
        let offered = self.offered(&open.config);
        let mut withheld = BTreeSet::new();
        for tool in offered.tools().iter() {
            if tool.spec().executor == Executor::Provider && !self.may_offer(open, tool).await {
                withheld.insert(tool.name().clone());
            }
        }
        let mut offered = offered.narrowed(|tool| !withheld.contains(tool.name()));
        let mut narrowed = Vec::new();
        if self.selectors.is_empty() {
            return (offered, narrowed);
        }
        let said = self.latest_message(session).await;
        for selector in &self.selectors {
            let (remaining, narrowing) = offered.selected(&**selector, &said);
            offered = remaining;
            narrowed.extend(narrowing.map(|narrowing| Narrowed {
                by: narrowing.by,
                reason: narrowing.reason,
                left_out: narrowing.left_out.len() as u64,
            }));
        }
        (offered, narrowed)
    }

    /// A provider runs its tools where nobody can be asked, so what would have to be asked about
    /// is not offered. Everything else is asked about when it is called.
    async fn may_offer(&self, open: &Open, tool: &Registered) -> bool {
        let (session, opened_by) = (open.session, &open.opened_by);
        let arguments = Arguments::plain(Map::new());
        let (spec, config, store) = (tool.spec(), &open.config, self.store.as_ref());
        let wish = Wish { session, opened_by, spec, arguments: &arguments, config, store };
        let facts = self.policy_facts(wish).await;
        let question = Question {
            contract: tool.spec().contract(),
            arguments: &arguments,
            level: open.config.level,
            profile: open.config.profile,
            exposure: &open.config.exposure,
            reports: &facts.reports,
            grants: open.grants(),
            now: self.clock.now(),
        };
        let runs_unseen = question.contract.executor == Executor::Provider;
        let uncounted = open.config.limits.bounds_spending() && question.contract.may_spend();
        facts.unmet_precondition.is_none() && question.may_offer() && !(runs_unseen && uncounted)
    }

    /// Returns what was said last, for those who choose tools by it.
    async fn latest_message(&self, session: SessionId) -> String {
        let Some(store) = &self.store else { return String::new() };
        said_last(store, session).await.unwrap_or_else(|error| {
            // Fewer words to choose by offer fewer tools, and nothing else.
            tracing::warn!(%session, %error, "what was said last cannot be read");
            String::new()
        })
    }
}

async fn said_last(
    store: &haft_store::Store,
    session: SessionId,
) -> Result<String, haft_store::Error> {
    let Some(loaded) = store.load(session).await? else { return Ok(String::new()) };
    let from = loaded.head.seq.saturating_sub(LOOK_BACK.into());
    for entry in store.entries(session, from, LOOK_BACK).await?.iter().rev() {
        if let Event::MessageReceived { content, .. } = entry.event()? {
            let texts = content.iter().filter_map(ContentBlock::as_text);
            return Ok(texts.collect::<Vec<_>>().join("\n"));
        }
    }
    Ok(String::new())
}

fn admitted(registered: &Registered, given: Given<'_>) -> Result<Map<String, Value>, Refusal> {
    admitted_with(registered, given).map(|admitted| admitted.arguments)
}

pub(super) fn admitted_with(
    registered: &Registered,
    given: Given<'_>,
) -> Result<Admitted, Refusal> {
    match given {
        Given::Text(text) => registered.admit_text(text.as_bytes()),
        Given::Object(object) => registered.admit(object),
    }
}

/// Reports that a model gave no answer. If its answer broke off and it is to be asked again, waits
/// first: longer each time, and not if nobody wants the answer any more.
async fn no_answer(turn: u32, attempt: u32, error: ModelError, stop: &CancellationToken) -> Input {
    let ModelError { failure, mut broke_off } = error;
    if broke_off && attempt < MODEL_ASKS_MAX {
        let pause = ASK_AGAIN_AFTER * 2u32.saturating_pow(attempt.saturating_sub(1));
        tokio::select! {
            () = stop.cancelled() => broke_off = false,
            () = tokio::time::sleep(pause) => {}
        }
    }
    Input::ModelFailed(ModelFailed { turn, attempt, failure, broke_off })
}
