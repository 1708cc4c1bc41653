//! What a mounted server asks for and says while its calls run.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haft_core::SessionId;
use haft_runtime::{ClockPause, Redactor, ToolContext};
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequestParams, ElicitResult, ElicitationAction, ErrorData, Implementation,
    ListRootsResult, ProgressNotificationParam, ProgressToken,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use crate::questions::{Kind, Question, Questions};

/// How often it is looked whether calls have ended.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often a server that asked a person is told that they have not answered yet.
const TELL_EVERY: Duration = Duration::from_secs(5);
/// How much progress is kept that came before it was known whose it is.
const EARLY_MAX: usize = 256;

/// What the server's own requests are answered from.
pub(super) struct Desk {
    pub(super) questions: Questions,
    /// The calls under way, the latest last.
    calls: Mutex<Vec<Arc<Call>>>,
    /// What the server's questions that nobody has answered yet hold still. Locked before the calls.
    waits: Mutex<Vec<Arc<Wait>>>,
    changed: watch::Sender<u64>,
    next: AtomicU64,
    /// The secrets that the server was given, and the tokens for it.
    secrets: Mutex<(Vec<String>, Vec<String>)>,
    /// Knows all of them.
    redactor: Mutex<Redactor>,
    /// Progress that came before it was known whose it is: a server may be quicker to speak of a
    /// request than its sender is to learn what it is called.
    early: Mutex<VecDeque<(ProgressToken, Value)>>,
}

/// A call under way.
pub(super) struct Call {
    id: u64,
    pub(super) context: ToolContext,
    /// How many questions were asked on its behalf.
    n_asked: AtomicU32,
    /// Whether it may have reached the server.
    pub(super) is_sent: AtomicBool,
    /// What its progress is told under.
    progress_token: Mutex<Option<ProgressToken>>,
}

/// A question of the server that waits for somebody. Meanwhile the clocks of all calls of its
/// session stand still, also of those that begin later: the server does not say for which of them it
/// asks, and may work on none until it is answered.
struct Wait {
    session: SessionId,
    paused: Mutex<Vec<ClockPause>>,
}

/// A question of the server that waits; the clocks go on when this is dropped.
struct Waits<'a> {
    desk: &'a Desk,
    wait: Arc<Wait>,
}

/// A call under way; it ends with this.
pub(super) struct UnderWay {
    desk: Arc<Desk>,
    pub(super) call: Arc<Call>,
}

#[derive(Clone)]
pub(super) struct Handler(pub(super) Arc<Desk>);

impl Desk {
    pub(super) fn new(questions: Questions) -> Self {
        Self {
            questions,
            calls: Mutex::default(),
            waits: Mutex::default(),
            changed: watch::Sender::new(0),
            next: AtomicU64::new(0),
            secrets: Mutex::default(),
            redactor: Mutex::default(),
            early: Mutex::default(),
        }
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Returns how often the server may have come to offer something else.
    pub(super) fn n_changes(&self) -> u64 {
        *self.changed.borrow()
    }

    /// Says that the server may offer something else by now.
    pub(super) fn changed(&self) {
        self.changed.send_modify(|n| *n += 1);
    }

    pub(super) fn redactor(&self) -> Redactor {
        lock(&self.redactor).clone()
    }

    pub(super) fn keep_quiet_about(&self, given: Vec<String>) {
        let mut secrets = lock(&self.secrets);
        secrets.0 = given;
        *lock(&self.redactor) = Redactor::new(&[secrets.0.as_slice(), &secrets.1].concat());
    }

    /// Returns the first of the secrets that the server was given.
    pub(super) fn given(&self) -> Option<String> {
        lock(&self.secrets).0.first().cloned()
    }

    pub(super) fn keep_quiet_about_tokens(&self, tokens: Vec<String>) {
        let mut secrets = lock(&self.secrets);
        secrets.1 = tokens;
        *lock(&self.redactor) = Redactor::new(&[secrets.0.as_slice(), &secrets.1].concat());
    }

    /// Says that a call is under way, so that what the server asks meanwhile is asked for it.
    pub(super) fn begin(self: &Arc<Self>, context: ToolContext) -> UnderWay {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let call = Arc::new(Call {
            id,
            context,
            n_asked: AtomicU32::new(0),
            is_sent: AtomicBool::new(false),
            progress_token: Mutex::default(),
        });
        let waits = lock(&self.waits);
        lock(&self.calls).push(Arc::clone(&call));
        for wait in waits.iter().filter(|wait| wait.session == call.context.session()) {
            lock(&wait.paused).push(call.context.pause_clock());
        }
        drop(waits);
        UnderWay { desk: Arc::clone(self), call }
    }

    /// Waits until the calls that are under way now have ended.
    pub(super) async fn finish_current(&self) {
        let next = self.next.load(Ordering::Relaxed);
        while lock(&self.calls).iter().any(|call| call.id < next) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Returns the call that a request of the server belongs to. The protocol does not say, and
    /// what is asked of one session's people is not shown to another's.
    fn asking(&self) -> Option<Arc<Call>> {
        let calls = lock(&self.calls);
        let latest = calls.last()?;
        let session = latest.context.session();
        let is_clear = calls.iter().all(|call| call.context.session() == session);
        is_clear.then(|| Arc::clone(latest))
    }

    /// Stops the clocks of a session's calls until what is returned is dropped.
    fn wait(&self, session: SessionId) -> Waits<'_> {
        let mut waits = lock(&self.waits);
        let calls = lock(&self.calls);
        let theirs = calls.iter().filter(|call| call.context.session() == session);
        let paused = Mutex::new(theirs.map(|call| call.context.pause_clock()).collect());
        let wait = Arc::new(Wait { session, paused });
        waits.push(Arc::clone(&wait));
        Waits { desk: self, wait }
    }

    /// Has a request of the server answered by whoever made its call.
    async fn ask(&self, kind: Kind, request: &impl Serialize) -> Result<Value, ErrorData> {
        let refused = |message: &str| ErrorData::invalid_request(message.to_owned(), None);
        let call = self.asking();
        let call = call.ok_or_else(|| refused("it cannot be told which call this belongs to"))?;
        let mut params = serde_json::to_value(request).unwrap_or_default();
        self.redactor().value(&mut params);
        let params: Map<String, Value> = params.as_object().cloned().unwrap_or_default();
        let question = Question { kind, params };
        let _waits = self.wait(call.context.session());
        let answer = self.questions.ask(&call.context, &call.next_key(), question).await;
        answer.map_err(|error| refused(&error.to_string()))
    }
}

impl UnderWay {
    /// Says what the call's progress is told under.
    pub(super) fn progresses_as(&self, token: &ProgressToken) {
        let mut early = lock(&self.desk.early);
        *lock(&self.call.progress_token) = Some(token.clone());
        early.retain(|(other, progress)| {
            if other == token {
                self.call.context.progress(progress.clone());
            }
            other != token
        });
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        lock(&self.desk.waits).retain(|wait| !Arc::ptr_eq(wait, &self.wait));
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        lock(&self.desk.calls).retain(|call| call.id != self.call.id);
    }
}

impl Call {
    fn is_progressing_as(&self, token: &ProgressToken) -> bool {
        lock(&self.progress_token).as_ref() == Some(token)
    }

    /// Returns the key of the call's next question: the same after a crash, as far as the server
    /// asks the same again.
    pub(super) fn next_key(&self) -> String {
        format!("upstream-{}", self.n_asked.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder()
            .enable_elicitation()
            .enable_roots()
            .enable_sampling()
            .build();
        let implementation = Implementation::new("haft", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, implementation)
    }

    /// A server's question to a person is one of ours: it waits in the store, and whoever the
    /// call's own client is may answer it. One that belongs to no call is declined.
    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let declined = || ElicitResult::new(ElicitationAction::Decline);
        let asked = self.0.ask(Kind::Elicitation, &request);
        match told_meanwhile(&context, asked).await {
            Ok(answer) => Ok(serde_json::from_value(answer).unwrap_or_else(|_| declined())),
            Err(_) if self.0.asking().is_none() => Ok(declined()),
            Err(_) => Ok(ElicitResult::new(ElicitationAction::Cancel)),
        }
    }

    /// No model of ours answers another server: whoever made the call is asked, who has a person
    /// look at it, or it is refused.
    async fn create_message(
        &self,
        request: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let answer = self.0.ask(Kind::Sampling, &request).await?;
        let unread = |error: serde_json::Error| ErrorData::invalid_request(error.to_string(), None);
        serde_json::from_value(answer).map_err(unread)
    }

    /// The roots are the caller's, if it has any; nothing of this node's is shown.
    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        let call = self.0.asking().map(|call| call.context.call());
        if !call.is_some_and(|call| self.0.questions.can_ask(call, Kind::Roots)) {
            return Ok(ListRootsResult::default());
        }
        let answer = self.0.ask(Kind::Roots, &json!({})).await;
        Ok(answer.ok().and_then(|it| serde_json::from_value(it).ok()).unwrap_or_default())
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let ProgressNotificationParam { progress_token, progress, total, message, .. } = params;
        let mut progress = json!({"progress": progress, "total": total, "message": message});
        self.0.redactor().value(&mut progress);
        let mut early = lock(&self.0.early);
        let calls = lock(&self.0.calls);
        match calls.iter().find(|call| call.is_progressing_as(&progress_token)) {
            Some(call) => call.context.progress(progress),
            None => {
                early.push_back((progress_token, progress));
                if early.len() > EARLY_MAX {
                    early.pop_front();
                }
            }
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.changed();
    }
}

/// Tells a server that wants to know it that a person has not answered yet, so that it does not
/// give up on its question.
async fn told_meanwhile<T>(
    context: &RequestContext<RoleClient>,
    asked: impl Future<Output = T>,
) -> T {
    let Some(token) = context.meta.get_progress_token() else { return asked.await };
    let mut asked = std::pin::pin!(asked);
    let mut n_told = 0.0;
    loop {
        if let Ok(answer) = tokio::time::timeout(TELL_EVERY, &mut asked).await {
            return answer;
        }
        n_told += 1.0;
        let waits = ProgressNotificationParam::new(token.clone(), n_told)
            .with_message("a person has not answered yet");
        // A server that is gone need not be told.
        context.peer.notify_progress(waits).await.ok();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
