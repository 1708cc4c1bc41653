//! One request for a call, from proposal to whatever it is answered with.

use std::collections::BTreeMap;
use std::time::Duration;

use haft_core::Outcome;
use haft_core::session::Rejection;
use haft_runtime::Waiting;
use rmcp::model::{
    ErrorData, InputRequest, InputRequests, InputResponses, LoggingLevel,
    LoggingMessageNotificationParam, ProgressNotificationParam, ServerRequest,
};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::McpServer;
use super::asks::{Ask, Taken};
use super::caller::{Caller, Era};
use super::calls::{Look, Standing, is_over, trouble};
use super::settings::TaskUse;
use crate::handle::Handle;
use crate::hub::{Told, Watch};
use crate::questions::Kind;

/// How often the store is looked at beside what is told: another node may end a wait.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What a request for a call is answered with.
#[derive(Debug)]
pub(super) enum Served {
    Done(Box<Outcome>),
    Rejected(Box<Rejection>),
    /// The client is to answer these and ask again.
    Input(InputRequests),
    /// The client is to come back for it.
    Task,
    /// It waits for someone whom the client cannot ask.
    Pending(Box<Waiting>),
    /// It still runs, and the time that was given is over.
    Running,
}

/// A request for a call under way.
pub(super) struct Serving<'a> {
    server: &'a McpServer,
    caller: &'a Caller,
    handle: Handle,
    watch: Watch,
    task_use: Option<TaskUse>,
    /// Answers that came along with the request, not used yet.
    responses: InputResponses,
    began: Instant,
    /// How long the call may wait for someone, or run, before the request is answered.
    patience: Patience,
    look: Look,
    if_left: IfLeft,
}

/// What becomes of a running call whose client does not wait for it any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfLeft {
    /// It goes on: the client has a key and comes back with it.
    GoesOn,
    /// It is stopped.
    Stops,
}

/// How long a request is held.
#[derive(Debug, Clone, Copy)]
pub(super) enum Patience {
    /// As long as the call runs, and a while if it waits for someone.
    Waits(Duration),
    /// A while, whatever the call does.
    Either(Duration),
}

impl<'a> Serving<'a> {
    /// Makes a call.
    pub(super) async fn begin(
        server: &'a McpServer,
        caller: &'a Caller,
        handle: Handle,
        tool: &str,
        arguments: Map<String, Value>,
        responses: InputResponses,
    ) -> Result<Self, ErrorData> {
        let serving = Self::around(server, caller, handle, Look::Here, responses);
        server.propose(caller, handle, tool, arguments).await?;
        Ok(serving)
    }

    /// Comes back to a call.
    pub(super) fn resume(
        server: &'a McpServer,
        caller: &'a Caller,
        handle: Handle,
        responses: InputResponses,
    ) -> Self {
        server.0.questions.called(handle.call, caller.can.clone());
        Self::around(server, caller, handle, Look::Anywhere, responses)
    }

    fn around(
        server: &'a McpServer,
        caller: &'a Caller,
        handle: Handle,
        look: Look,
        responses: InputResponses,
    ) -> Self {
        let patience = Patience::Waits(server.0.settings.patience);
        // Before anything happens, so that nothing is missed.
        let watch = server.0.questions.hub().watch(handle.call);
        let began = Instant::now();
        let (task_use, if_left) = (None, IfLeft::Stops);
        Self { server, caller, handle, watch, task_use, responses, began, patience, look, if_left }
    }

    pub(super) fn with_task_use(mut self, task_use: Option<TaskUse>) -> Self {
        self.task_use = task_use;
        self
    }

    pub(super) fn if_left(mut self, if_left: IfLeft) -> Self {
        self.if_left = if_left;
        self
    }

    pub(super) fn with_patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    /// Waits until there is something to answer the request with.
    pub(super) async fn finish(mut self) -> Result<Served, ErrorData> {
        if self.caller.knows_tasks
            && matches!(self.task_use, Some(TaskUse::Preferred | TaskUse::Required))
        {
            return Ok(Served::Task);
        }
        // A call that was just made has told nothing yet, so the store is not looked at first.
        if self.look == Look::Here
            && let Some(served) = self.pause(LOOK_EVERY).await
        {
            return Ok(served);
        }
        loop {
            let (handle, principal) = (self.handle, &self.caller.principal);
            let served = match self.server.standing(handle, principal, self.look).await? {
                Standing::Done(outcome) => Some(Served::Done(outcome)),
                Standing::Rejected(rejection) => Some(Served::Rejected(rejection)),
                Standing::Running => self.running(),
                Standing::Waiting(waiting) => self.waiting(waiting),
                Standing::Asking(asks) => self.asking(asks).await?,
            };
            if let Some(served) = served {
                return Ok(served);
            }
            if let Some(served) = self.pause(LOOK_EVERY).await {
                return Ok(served);
            }
        }
    }

    fn running(&self) -> Option<Served> {
        let may_be_task = self.caller.knows_tasks && self.task_use != Some(TaskUse::Never);
        let has_input =
            self.task_use == Some(TaskUse::RequiredAfterInput) && self.look == Look::Anywhere;
        let is_slow = self.began.elapsed() >= self.server.0.settings.task_after;
        if may_be_task && (has_input || is_slow) {
            return Some(Served::Task);
        }
        match self.patience {
            Patience::Either(patience) if self.began.elapsed() >= patience => Some(Served::Running),
            _ => None,
        }
    }

    fn waiting(&self, waiting: Box<Waiting>) -> Option<Served> {
        if self.caller.knows_tasks && self.task_use != Some(TaskUse::Never) {
            return Some(Served::Task);
        }
        let (Patience::Waits(patience) | Patience::Either(patience)) = self.patience;
        (self.began.elapsed() >= patience).then_some(Served::Pending(waiting))
    }

    /// Uses the answers that came along; if there are none, asks in the way of the client's era.
    async fn asking(&mut self, asks: Vec<Ask>) -> Result<Option<Served>, ErrorData> {
        let mut open = Vec::new();
        for ask in asks {
            let taken = match self.responses.remove(&ask.key) {
                Some(answer) => self.answered(&ask, &answer).await?,
                None => Taken::No,
            };
            if taken == Taken::No {
                open.push(ask);
            }
        }
        open.retain(|ask| self.caller.can.contains(&ask.question.kind));
        if open.is_empty() {
            // Nothing that this client can be asked: what waits is told by the store.
            return self.unasked().await;
        }
        match self.caller.era {
            Era::Modern => Ok(Some(Served::Input(requests(&open)?))),
            Era::Legacy => self.ask_now(open).await,
        }
    }

    async fn unasked(&self) -> Result<Option<Served>, ErrorData> {
        use haft_runtime::Answer;
        let answer = self.server.0.haft.answer(self.handle.session, self.handle.call).await;
        match answer.map_err(|error| trouble(&error))? {
            Some(Answer::Waiting(waiting)) => Ok(self.waiting(waiting)),
            _ => Ok(self.running()),
        }
    }

    async fn answered(&self, ask: &Ask, answer: &Value) -> Result<Taken, ErrorData> {
        let taken = ask.answered(&self.server.0.haft, &self.caller.principal, answer).await;
        taken.map_err(|error| trouble(&error))
    }

    /// Asks the client while its request is under way. Whoever else answers first ends the asking.
    async fn ask_now(&mut self, asks: Vec<Ask>) -> Result<Option<Served>, ErrorData> {
        for ask in asks {
            let request = server_request(&ask)?;
            let Some(peer) = self.caller.peer.clone() else { return self.unasked().await };
            let asked = peer.send_request(request);
            tokio::pin!(asked);
            let answer = loop {
                tokio::select! {
                    answer = &mut asked => break answer,
                    served = self.pause(LOOK_EVERY) => if served.is_some() { return Ok(served) },
                }
                let (handle, principal) = (self.handle, &self.caller.principal);
                let standing = self.server.standing(handle, principal, self.look).await?;
                if !matches!(&standing, Standing::Asking(open) if open.iter().any(|o| o.key == ask.key))
                {
                    return Ok(None);
                }
            };
            let answer = answer.ok().and_then(|answer| serde_json::to_value(answer).ok());
            let taken = match answer {
                Some(answer) => self.answered(&ask, &answer).await?,
                None => Taken::No,
            };
            if taken == Taken::No {
                // The client did not answer what it said it can: others still may.
                return self.unasked().await;
            }
        }
        Ok(None)
    }

    /// Waits for news, and passes on what the client wants to hear on the way.
    async fn pause(&mut self, at_most: Duration) -> Option<Served> {
        let until = Instant::now() + at_most;
        loop {
            let told = tokio::select! {
                told = self.watch.next() => told,
                () = tokio::time::sleep_until(until) => return None,
                () = self.caller.gone.cancelled() => {
                    self.left().await;
                    return Some(Served::Running);
                }
            };
            match told {
                Told::Ended(outcome) => return Some(Served::Done(outcome)),
                Told::Rejected(rejection) => return Some(Served::Rejected(rejection)),
                Told::Moved => return None,
                Told::Progress(progress) => self.pass_on(progress).await,
            }
        }
    }

    /// The client does not wait any more. What runs for it is stopped, and that is recorded; what
    /// waits for a person goes on waiting, for the client can come back to it.
    async fn left(&self) {
        if self.if_left == IfLeft::GoesOn {
            return;
        }
        let (handle, principal) = (self.handle, &self.caller.principal);
        let standing = self.server.standing(handle, principal, Look::Here).await;
        if let Ok(Standing::Running | Standing::Asking(_)) = standing {
            // Whoever it would be told to has left.
            self.server.stop(handle, principal, "its client stopped waiting for it").await.ok();
        }
    }

    async fn pass_on(&self, progress: Value) {
        if let Some(log) = progress.get("log").and_then(Value::as_object) {
            return self.log(log).await;
        }
        let (Some(peer), Some(token)) = (&self.caller.peer, self.caller.progress.clone()) else {
            return;
        };
        let number = |name: &str| progress.get(name).and_then(Value::as_f64);
        let mut param = ProgressNotificationParam::new(token, number("progress").unwrap_or(0.0));
        param.total = number("total");
        param.message = match progress.get("message").and_then(Value::as_str) {
            Some(message) => Some(message.to_owned()),
            None if progress.get("progress").is_none() => Some(progress.to_string()),
            None => None,
        };
        // Progress is for whoever listens; if nobody does, the call goes on.
        peer.notify_progress(param).await.ok();
    }

    async fn log(&self, log: &Map<String, Value>) {
        let level = log.get("level").cloned().unwrap_or_default();
        let level: LoggingLevel = serde_json::from_value(level).unwrap_or(LoggingLevel::Info);
        let Some(peer) = &self.caller.peer else { return };
        if self.caller.log_level.is_none_or(|least| severity(level) < severity(least)) {
            return;
        }
        let data = log.get("data").cloned().unwrap_or_default();
        let param = LoggingMessageNotificationParam::new(level, data)
            .with_logger(self.server.0.settings.name.clone());
        peer.notify_logging_message(param).await.ok();
    }
}

impl McpServer {
    /// Stops a call, if it can still be stopped; returns why nobody could be told to.
    pub(super) async fn stop(
        &self,
        handle: Handle,
        principal: &crate::Principal,
        note: &str,
    ) -> Result<(), ErrorData> {
        let (by, note) = (principal.actor.clone(), Some(note.to_owned()));
        let stopped = self.0.haft.cancel(handle.session, handle.call, by, note).await;
        match stopped {
            Err(error) if !is_over(&error) => {
                tracing::warn!(%error, %handle, "a call could not be stopped");
                Err(trouble(&error))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

const fn severity(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}

/// Returns what is asked in the form in which an answer carries it.
pub(super) fn requests(asks: &[Ask]) -> Result<InputRequests, ErrorData> {
    let requests = asks.iter().map(|ask| Ok((ask.key.clone(), input_request(ask)?)));
    requests.collect::<Result<BTreeMap<_, _>, ErrorData>>()
}

fn input_request(ask: &Ask) -> Result<InputRequest, ErrorData> {
    let unsound = |error: serde_json::Error| {
        let key = &ask.key;
        ErrorData::internal_error(
            format!("the question `{key}` is not one of MCP's: {error}"),
            None,
        )
    };
    serde_json::from_value(ask.question.request()).map_err(unsound)
}

fn server_request(ask: &Ask) -> Result<ServerRequest, ErrorData> {
    match input_request(ask)? {
        InputRequest::CreateMessage(request) => Ok(ServerRequest::CreateMessageRequest(request)),
        InputRequest::Elicitation(request) => Ok(ServerRequest::ElicitRequest(request)),
        InputRequest::ListRoots(request) => Ok(ServerRequest::ListRootsRequest(request)),
        _ => Err(super::outcomes::missing(Kind::Elicitation)),
    }
}
