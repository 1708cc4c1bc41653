//! What a running tool asks of whoever called it.
//!
//! A question is a call of its own, run by a person: it waits in the store, shows in every inbox,
//! is answered once, and outlives the process. Which question belongs to which call is recorded
//! before it is asked, so that a tool that is run again after a crash finds its question, and the
//! answer if there is one, under the same key.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haft_core::session::{Config, Driver, Refusal};
use haft_core::tool::{Definition, Executor, Schema, Status};
use haft_core::{Actor, CallId, CallResult, Failure, Millis, SessionId, ToolName};
use haft_runtime::{Answer, CallError, Haft, HaftBuilder, InputError, Tap, ToolContext, ToolError};
use haft_store::{Expected, Page, Place, Put, PutError, Tenant, Which};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use crate::handle::Handle;
use crate::hub::{Hub, Told};

/// The tool whose calls are the questions.
pub(crate) const TOOL: &str = "request_input";
/// Where it is recorded which question belongs to which call.
const SPACE: &str = "mcp-questions";
/// How long a question waits.
const TTL: Millis = Millis::from_secs(7 * 24 * 3600);
/// How long a question's name may be.
const KEY_CHARS: usize = 128;
/// How many calls are remembered with what their callers can be asked.
const CALLERS_MAX: usize = 10_000;
/// How long a question waits for the node to be given.
const ATTACH_MAX: Duration = Duration::from_secs(30);
/// How often the log is looked at beside what is told: another node may take the answer.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What MCP lets a server ask of its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Something for the person to fill in.
    Elicitation,
    /// An answer of the client's model.
    Sampling,
    /// The client's directories.
    Roots,
}

impl Kind {
    const fn method(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation/create",
            Self::Sampling => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }
}

/// One question, in MCP's words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// What is asked for.
    pub kind: Kind,
    /// The params of the request, as MCP defines them for that kind.
    pub params: Map<String, Value>,
}

impl Question {
    /// Asks the person to fill in a form.
    pub fn form(message: &str, schema: &Value) -> Self {
        let params = json!({"mode": "form", "message": message, "requestedSchema": schema});
        Self { kind: Kind::Elicitation, params: params.as_object().cloned().unwrap_or_default() }
    }

    /// Fills in what the person left as the form proposes it.
    fn completed(&self, mut answer: Value) -> Value {
        let schema = self.params.get("requestedSchema");
        let fields = schema.and_then(|schema| schema.get("properties")?.as_object());
        let (Some(fields), true) = (fields, answer["action"] == "accept") else { return answer };
        let proposed =
            fields.iter().filter_map(|(name, field)| Some((name, field.get("default")?)));
        for (name, default) in proposed {
            let content = &mut answer["content"];
            if content.is_null() || content.get(name).is_none() && content.is_object() {
                content[name] = default.clone();
            }
        }
        answer
    }

    /// Returns it as the request that MCP has for it.
    pub(crate) fn request(&self) -> Value {
        match self.kind {
            Kind::Roots => json!({"method": self.kind.method()}),
            Kind::Elicitation | Kind::Sampling => {
                json!({"method": self.kind.method(), "params": self.params})
            }
        }
    }
}

/// A question that was asked, and the call that waits for its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) question: Question,
    pub(crate) session: SessionId,
    pub(crate) call: CallId,
}

/// Lets running tools ask whoever called them; a service of the node's tools. A clone shares it.
#[derive(Clone, Default)]
pub struct Questions(Arc<Shared>);

#[derive(Default)]
struct Shared {
    node: Mutex<Option<Node>>,
    /// Told when there is a node.
    attached: Notify,
    hub: Hub,
    /// What calls that run in this process wait for.
    open: Mutex<HashMap<CallId, OpenHere>>,
    /// What the callers of calls can be asked; ids are ordered by time, so the oldest is first.
    callers: Mutex<BTreeMap<CallId, Caller>>,
}

/// The node whose tools ask.
struct Node {
    haft: Haft,
    /// Tells the hub what happens to calls.
    _tap: Tap,
    n_attached: usize,
}

/// What a call that runs in this process waits for.
#[derive(Debug, Default)]
struct OpenHere {
    /// How many of its pieces of code are asking.
    n_asking: usize,
    /// What they have asked, by key.
    shown: BTreeMap<String, Asked>,
}

#[derive(Debug, Clone, Default)]
struct Caller {
    can: BTreeSet<Kind>,
    missing: Option<Kind>,
}

/// Gives a node the tool that questions are calls of, and its tools the means to ask them.
pub fn install(builder: HaftBuilder, questions: &Questions) -> HaftBuilder {
    match definition() {
        Some(definition) => builder.service(questions.clone()).declare(definition),
        None => builder.service(questions.clone()),
    }
}

fn definition() -> Option<Definition> {
    let schema = r#"{"type":"object","properties":{"call":{"type":"string","description":"The call that needs the input"},"key":{"type":"string","description":"What the input is called"},"request":{"type":"object","description":"What is asked for, in the words of MCP"}},"required":["call","key","request"],"additionalProperties":false}"#;
    let description = "Ask whoever made a call for the input that it needs to go on.";
    let (name, schema) = (ToolName::new(TOOL).ok()?, Schema::new(schema).ok()?);
    let mut definition = Definition::new(name, description, schema);
    definition.executor = Executor::Human;
    definition.status = Status::Unlisted;
    definition.suspend_ttl = TTL;
    Some(definition)
}

#[haft_macros::boxed]
impl Questions {
    /// Starts without a node; [`Questions::attach`] gives it one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the node whose tools ask, for as long as what is returned lives: the node holds its
    /// tools' services, and would hold itself through this one. Only the first node counts.
    #[must_use]
    pub fn attach(&self, haft: &Haft) -> Attached {
        let mut node = lock(&self.0.node);
        let node = node.get_or_insert_with(|| {
            let hub = self.0.hub.clone();
            let tap = haft.live().tap(move |live| hub.hear(live));
            Node { haft: haft.clone(), _tap: tap, n_attached: 0 }
        });
        node.n_attached += 1;
        self.0.attached.notify_waiters();
        Attached(self.clone())
    }

    /// Returns whether the caller of a running call can be asked for something. A person can
    /// always be asked, if not through the caller then through any other door.
    pub fn can_ask(&self, call: CallId, kind: Kind) -> bool {
        let callers = lock(&self.0.callers);
        kind == Kind::Elicitation
            || callers.get(&call).is_some_and(|caller| caller.can.contains(&kind))
    }

    /// Asks, and waits for the answer: the result that MCP defines for the request. The same key
    /// in the same call is the same question, also in another process.
    ///
    /// # Errors
    ///
    /// When the call is stopped, nobody answers in time, or the client cannot be asked for that.
    pub async fn ask(
        &self,
        context: &ToolContext,
        key: &str,
        question: Question,
    ) -> Result<Value, ToolError> {
        let mut answers = self.ask_all(context, [(key.to_owned(), question)].into()).await?;
        Ok(answers.remove(key).unwrap_or_default())
    }

    /// Asks several things at once, so that whoever answers sees all of them together.
    ///
    /// # Errors
    ///
    /// As [`Questions::ask`].
    pub async fn ask_all(
        &self,
        context: &ToolContext,
        questions: BTreeMap<String, Question>,
    ) -> Result<BTreeMap<String, Value>, ToolError> {
        let haft = &self.haft(context).await?;
        let mut open = self.open(context.call());
        let mut all = BTreeMap::new();
        for (key, question) in questions {
            self.require_askable(context.call(), question.kind)?;
            let asked = self.claim(haft, context, &key, question).await?;
            self.propose(haft, context, &key, &asked).await?;
            all.insert(key, asked);
        }
        open.show(all.clone());
        // A person may take days, and the tool only a minute.
        let _paused = context.pause_clock();
        let mut answers = BTreeMap::new();
        for (key, asked) in all {
            let answer = self.answer(haft, context, &asked).await?;
            answers.insert(key, asked.question.completed(answer));
        }
        Ok(answers)
    }

    fn require_askable(&self, call: CallId, kind: Kind) -> Result<(), ToolError> {
        if self.can_ask(call, kind) {
            return Ok(());
        }
        if let Some(caller) = lock(&self.0.callers).get_mut(&call) {
            caller.missing = Some(kind);
        }
        let method = kind.method();
        Err(ToolError::new(format!("the caller cannot be asked for `{method}`")))
    }

    async fn answer(
        &self,
        haft: &Haft,
        context: &ToolContext,
        asked: &Asked,
    ) -> Result<Value, ToolError> {
        let mut watch = self.0.hub.watch(asked.call);
        loop {
            if let Some(Answer::Done(outcome)) = haft.answer(asked.session, asked.call).await? {
                return match outcome.result {
                    CallResult::Ok(output) => Ok(output.value.unwrap_or(Value::Null)),
                    CallResult::Err(failure) => Err(unanswered(failure)),
                };
            }
            tokio::select! {
                told = watch.next() => if let Told::Progress(_) = told { continue },
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = context.stop().cancelled() => {
                    let note = Some("the call that asked was stopped".to_owned());
                    // Whoever has just answered has answered in vain.
                    haft.cancel(asked.session, asked.call, Actor::system(), note).await.ok();
                    return Err(ToolError::cancelled());
                }
            }
        }
    }

    /// Returns the question that is recorded under the key, and records this one if there is none.
    async fn claim(
        &self,
        haft: &Haft,
        context: &ToolContext,
        key: &str,
        question: Question,
    ) -> Result<Asked, ToolError> {
        if key.is_empty() || key.chars().count() > KEY_CHARS {
            return Err(ToolError::internal("a question's key has 1 to 128 characters"));
        }
        let (tenant, by) = origin(haft, context.session()).await?;
        let place = place(&tenant, context.call(), key)?;
        loop {
            if let Some(found) = haft.store().version(&place, Which::Latest).await? {
                return Ok(serde_json::from_slice(found.body.as_deref().unwrap_or_default())?);
            }
            let session = haft.open(tenant.clone(), config(), by.clone()).await?;
            let call = CallId::from_bits(haft.driver().fresh()?);
            let asked = Asked { question: question.clone(), session, call };
            let body = Some(serde_json::to_vec(&asked)?);
            let put = Put { place: place.clone(), expected: Expected::Absent, body };
            match haft.store().put_versions(vec![put], &by, haft.now()).await {
                Ok(_) => return Ok(asked),
                Err(PutError::Moved { .. }) => {}
                Err(PutError::Store(error)) => return Err(error.into()),
            }
        }
    }

    async fn propose(
        &self,
        haft: &Haft,
        context: &ToolContext,
        key: &str,
        asked: &Asked,
    ) -> Result<(), ToolError> {
        let arguments = json!({
            "call": Handle { session: context.session(), call: context.call() }.to_string(),
            "key": key,
            "request": asked.question.request(),
        });
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        match haft.propose_as(asked.session, asked.call, TOOL, arguments).await {
            // Asked before, by this process or by one that died.
            Ok(()) | Err(CallError::Input(InputError::Refused(Refusal::DuplicateCall { .. }))) => {
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn given(&self) -> Option<Haft> {
        lock(&self.0.node).as_ref().map(|node| node.haft.clone())
    }

    /// Returns the node. What a crash interrupted may ask again before the node is given.
    async fn haft(&self, context: &ToolContext) -> Result<Haft, ToolError> {
        let given = async {
            loop {
                let attached = self.0.attached.notified();
                tokio::pin!(attached);
                attached.as_mut().enable();
                if let Some(haft) = self.given() {
                    return haft;
                }
                attached.await;
            }
        };
        let unattached = |_| ToolError::internal("no node is attached to the questions");
        tokio::select! {
            haft = tokio::time::timeout(ATTACH_MAX, given) => haft.map_err(unattached),
            () = context.stop().cancelled() => Err(ToolError::cancelled()),
        }
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.0.hub
    }

    /// Remembers what the caller of a call can be asked.
    pub(crate) fn called(&self, call: CallId, can: BTreeSet<Kind>) {
        let mut callers = lock(&self.0.callers);
        callers.insert(call, Caller { can, missing: None });
        while callers.len() > CALLERS_MAX {
            callers.pop_first();
        }
    }

    /// Forgets the caller of a call that is over, and returns what it could not be asked.
    pub(crate) fn ended(&self, call: CallId) -> Option<Kind> {
        lock(&self.0.callers).remove(&call).and_then(|caller| caller.missing)
    }

    /// Returns what a call waits for if it asks in this process.
    pub(crate) async fn open_here(&self, call: CallId) -> Option<BTreeMap<String, Asked>> {
        let asked = lock(&self.0.open).get(&call).map(|open| open.shown.clone())?;
        let mut open = BTreeMap::new();
        for (key, asked) in asked {
            // Its tool may not have heard yet that it was answered.
            if self.waits(&asked).await {
                open.insert(key, asked);
            }
        }
        Some(open)
    }

    async fn waits(&self, asked: &Asked) -> bool {
        let Some(haft) = self.given() else { return false };
        matches!(haft.answer(asked.session, asked.call).await, Ok(Some(Answer::Waiting(_))))
    }

    /// Returns what a call waits for, wherever it runs, and also while nobody runs it.
    pub(crate) async fn open_anywhere(
        &self,
        haft: &Haft,
        tenant: &Tenant,
        call: CallId,
    ) -> Result<BTreeMap<String, Asked>, haft_store::Error> {
        let prefix = format!("{call}.");
        let page = Page { after: Some(prefix.clone()), limit: 256 };
        let keys = haft.store().keys(tenant, SPACE, &page).await?;
        let mut open = BTreeMap::new();
        for (full, _) in keys {
            let Some(key) = full.strip_prefix(&prefix) else { break };
            let place = Place::new(tenant.clone(), SPACE, &full)?;
            let Some(found) = haft.store().version(&place, Which::Latest).await? else { continue };
            let body = found.body.unwrap_or_default();
            let Ok(asked) = serde_json::from_slice::<Asked>(&body) else { continue };
            if self.waits(&asked).await {
                open.insert(key.to_owned(), asked);
            }
        }
        Ok(open)
    }

    /// Says that a call asks, and not yet what: until all of it is asked, nobody sees a part.
    fn open(&self, call: CallId) -> Open<'_> {
        lock(&self.0.open).entry(call).or_default().n_asking += 1;
        Open { questions: self, call, keys: Vec::new() }
    }
}

/// Keeps a node attached to its questions.
#[derive(Debug)]
pub struct Attached(Questions);

impl Drop for Attached {
    fn drop(&mut self) {
        let mut node = lock(&self.0.0.node);
        if let Some(attached) = node.as_mut() {
            attached.n_attached -= 1;
            if attached.n_attached == 0 {
                *node = None;
            }
        }
    }
}

/// Questions that their tool waits on.
struct Open<'a> {
    questions: &'a Questions,
    call: CallId,
    keys: Vec<String>,
}

impl Open<'_> {
    fn show(&mut self, asked: BTreeMap<String, Asked>) {
        self.keys = asked.keys().cloned().collect();
        if let Some(open) = lock(&self.questions.0.open).get_mut(&self.call) {
            open.shown.extend(asked);
        }
        self.questions.0.hub.moved(self.call);
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let mut calls = lock(&self.questions.0.open);
        if let Some(open) = calls.get_mut(&self.call) {
            open.shown.retain(|key, _| !self.keys.contains(key));
            open.n_asking -= 1;
            if open.n_asking == 0 {
                calls.remove(&self.call);
            }
        }
    }
}

/// A question's session can do nothing but ask.
fn config() -> Config {
    let mut config = Config { driver: Driver::Caller, ..Config::default() };
    config.exposure.allow = Some(ToolName::new(TOOL).into_iter().collect());
    config
}

/// Returns whose session it is and on whose behalf it is used.
async fn origin(haft: &Haft, session: SessionId) -> Result<(Tenant, Actor), ToolError> {
    let gone = || ToolError::internal("the session of this call is gone");
    let loaded = haft.store().load(session).await?.ok_or_else(gone)?;
    let by = loaded.state.as_open().map(|open| open.opened_by.clone()).ok_or_else(gone)?;
    Ok((loaded.tenant, by))
}

fn place(tenant: &Tenant, call: CallId, key: &str) -> Result<Place, haft_store::Error> {
    Place::new(tenant.clone(), SPACE, &format!("{call}.{key}"))
}

fn unanswered(failure: Failure) -> ToolError {
    let message = format!("the input it asked for did not come: {}", failure.message);
    ToolError::from_failure(Failure { message, ..failure })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Questions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Questions").field("n_open", &lock(&self.0.open).len()).finish()
    }
}
