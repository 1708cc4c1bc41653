//! One connection of a client, and how a request of it is served by a call.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use haft_core::{Outcome, ToolName};
use rmcp::model::{
    CallToolResponse, ErrorData, InputRequests, InputRequiredResult, LoggingLevel, RequestId,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Map, Value};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::McpServer;
use super::caller::Caller;
use super::calls::trouble;
use super::outcomes;
use super::plain::PlainCall;
use super::request_state;
use super::serving::{Served, Serving};
use super::settings::TaskUse;
use crate::handle::Handle;
use crate::principal::Principal;

/// One connection of a client, or one of its requests where requests stand alone.
pub(crate) struct Connection {
    pub(super) server: McpServer,
    /// Who speaks, where requests do not say so themselves.
    pub(super) principal: Option<Principal>,
    pub(super) log_level: Mutex<LoggingLevel>,
    /// The calls that requests under way have led to.
    pub(super) under_way: Mutex<HashMap<RequestId, Handle>>,
    /// The resources whose changes it wants to hear of, where connections last.
    pub(super) subscribed: Arc<Mutex<BTreeSet<String>>>,
    pub(super) closed: CancellationToken,
    _closing: DropGuard,
}

impl Connection {
    pub(super) fn new(server: McpServer, principal: Option<Principal>) -> Self {
        let closed = CancellationToken::new();
        Self {
            server,
            principal,
            log_level: Mutex::new(LoggingLevel::Debug),
            under_way: Mutex::default(),
            subscribed: Arc::default(),
            closed: closed.clone(),
            _closing: closed.drop_guard(),
        }
    }

    pub(super) fn caller(&self, context: &RequestContext<RoleServer>) -> Result<Caller, ErrorData> {
        let level = *self.log_level.lock().unwrap_or_else(PoisonError::into_inner);
        Caller::of(context, self.principal.as_ref(), Some(level))
    }

    /// Makes a call, or comes back to one, and waits for what the request is answered with.
    pub(super) async fn serve(
        &self,
        context: &RequestContext<RoleServer>,
        caller: &Caller,
        asked: Asked,
    ) -> Result<(Handle, Served), ErrorData> {
        let (handle, serving) = self.server.begin(caller, asked).await?;
        let _under_way = self.under_way(context.id.clone(), handle);
        Ok((handle, self.server.finish(caller, handle, serving).await?))
    }

    fn under_way(&self, id: RequestId, handle: Handle) -> UnderWay<'_> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.insert(id.clone(), handle);
        UnderWay { connection: self, id }
    }

    /// For requests that have no tasks and no handles: a result, or a need of input.
    pub(super) async fn served_whole(
        &self,
        context: RequestContext<RoleServer>,
        asked: Asked,
    ) -> Result<Whole, ErrorData> {
        let caller = self.caller(&context)?;
        let (handle, served) = self.serve(&context, &caller, asked).await?;
        match served {
            Served::Done(outcome) => Ok(Whole::Done(outcome)),
            Served::Rejected(rejection) => {
                Err(ErrorData::invalid_params(rejection.message.clone(), None))
            }
            Served::Input(requests) => Ok(Whole::Input(self.server.input(handle, requests))),
            Served::Pending(waiting) => {
                Err(ErrorData::internal_error(self.server.whom(&waiting), None))
            }
            Served::Task | Served::Running => {
                Err(ErrorData::internal_error("it takes too long", None))
            }
        }
    }
}

impl McpServer {
    /// Makes a call for a request that stands alone. If nobody waits for its answer any more, that
    /// is noticed as on any connection.
    pub(super) async fn call_plainly(
        &self,
        principal: Principal,
        call: PlainCall,
    ) -> Result<CallToolResponse, ErrorData> {
        let gone = CancellationToken::new();
        let caller = Caller::alone(principal, &call.capabilities, gone.clone());
        let server = self.clone();
        let waits = gone.drop_guard();
        let made = tokio::spawn(async move {
            let asked = server.asked(&caller, &call.name, call.arguments)?;
            let asked = Asked { key: call.key, ..asked };
            let (handle, serving) = server.begin(&caller, asked).await?;
            let served = server.finish(&caller, handle, serving).await?;
            server.answer(handle, served)
        });
        let answer = made.await;
        waits.disarm();
        answer.unwrap_or_else(|error| Err(trouble(&error)))
    }

    /// Returns what a request asks for that calls a tool.
    pub(super) fn asked(
        &self,
        caller: &Caller,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Asked, ErrorData> {
        let shown = self.shown();
        let tool = shown.called(name, &caller.principal.tenant);
        let tool = tool.ok_or_else(|| outcomes::no_tool(name))?.clone();
        let task_use = self.0.settings.tasks.get(&tool).copied();
        let needs_tasks = matches!(task_use, Some(TaskUse::Required | TaskUse::RequiredAfterInput));
        if needs_tasks && !caller.knows_tasks {
            return Err(outcomes::tasks_missing());
        }
        Ok(Asked { tool, arguments, responses: None, state: None, task_use, key: None })
    }

    /// Makes a call, or comes back to one.
    async fn begin<'a>(
        &'a self,
        caller: &'a Caller,
        asked: Asked,
    ) -> Result<(Handle, Serving<'a>), ErrorData> {
        let (tool, responses) = (asked.tool.as_str(), asked.responses.unwrap_or_default());
        let (handle, serving) = match (asked.state, asked.key) {
            (Some(state), _) => {
                let unsound = || ErrorData::invalid_params("`requestState` is not whole", None);
                let named = request_state::read(&state).ok_or_else(unsound)?;
                let handle = self.known(&caller.principal, named).await?;
                self.require_same(handle, tool).await?;
                (handle, Serving::resume(self, caller, handle, responses))
            }
            (None, Some(key)) => {
                let call = (tool, asked.arguments);
                self.begin_once(caller, key, call, responses).await?
            }
            (None, None) => {
                let handle = self.fresh(&caller.principal).await?;
                let begun = Serving::begin(self, caller, handle, tool, asked.arguments, responses);
                (handle, begun.await?)
            }
        };
        Ok((handle, serving.with_task_use(asked.task_use)))
    }

    /// Waits for what the request is answered with.
    async fn finish(
        &self,
        caller: &Caller,
        handle: Handle,
        serving: Serving<'_>,
    ) -> Result<Served, ErrorData> {
        let served = serving.finish().await?;
        if let Served::Done(_) | Served::Rejected(_) = &served {
            self.0.sessions.put_back(&caller.principal, handle.session);
            if let Some(kind) = self.0.questions.ended(handle.call) {
                return Err(outcomes::missing(kind));
            }
        }
        Ok(served)
    }

    pub(super) fn input(&self, handle: Handle, requests: InputRequests) -> InputRequiredResult {
        let state = request_state::write(handle, self.0.haft.now());
        InputRequiredResult::new(Some(requests), Some(state))
    }
}

/// What a request asks for.
pub(super) struct Asked {
    pub(super) tool: ToolName,
    pub(super) arguments: Map<String, Value>,
    pub(super) responses: Option<rmcp::model::InputResponses>,
    pub(super) state: Option<String>,
    pub(super) task_use: Option<TaskUse>,
    /// By which the call is recognised when it is made again.
    pub(super) key: Option<String>,
}

/// What comes of a request that has no tasks and no handles.
pub(super) enum Whole {
    Done(Box<Outcome>),
    Input(InputRequiredResult),
}

/// A request whose call can be stopped by its id.
struct UnderWay<'a> {
    connection: &'a Connection,
    id: RequestId,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let under_way = &self.connection.under_way;
        under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}
