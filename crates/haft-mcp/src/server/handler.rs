//! What is done for each request of a client.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use haft_core::{ArtifactId, Outcome};
use haft_store::{Page, PendingFilter};
use rmcp::ServerHandler;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams,
    CancelledNotificationParam, ContentBlock, CreateTaskResult, ErrorData, GetPromptRequestParams,
    GetPromptResponse, GetTaskParams, GetTaskResult, Implementation, InputRequests,
    InputRequiredResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, LoggingLevel, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, RequestId, ResourceContents, ServerCapabilities,
    ServerConfig, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use serde_json::{Map, Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::McpServer;
use super::caller::Caller;
use super::calls::trouble;
use super::changes::{self, Audience};
use super::listing::AWAIT_CALL;
use super::outcomes;
use super::request_state;
use super::serving::{Patience, Served, Serving};
use super::settings::TaskUse;
use crate::handle::Handle;
use crate::principal::Principal;

/// How long clients may keep what they were shown; changes are told besides.
const TTL_MS: u64 = 60_000;
/// How long `await_call` waits unless told.
const AWAIT: Duration = Duration::from_secs(20);
/// The longest that it waits.
const AWAIT_MAX: u64 = 300;
/// How many waiting calls it lists.
const LISTED_MAX: u32 = 100;

/// One connection of a client, or one of its requests where requests stand alone.
pub(crate) struct Connection {
    server: McpServer,
    /// Who speaks, where requests do not say so themselves.
    principal: Option<Principal>,
    log_level: Mutex<LoggingLevel>,
    /// The calls that requests under way have led to.
    under_way: Mutex<HashMap<RequestId, Handle>>,
    /// The resources whose changes it wants to hear of, where connections last.
    subscribed: Arc<Mutex<BTreeSet<String>>>,
    closed: CancellationToken,
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

    fn caller(&self, context: &RequestContext<RoleServer>) -> Result<Caller, ErrorData> {
        let level = *self.log_level.lock().unwrap_or_else(PoisonError::into_inner);
        Caller::of(context, self.principal.as_ref(), Some(level))
    }

    /// Makes a call, or comes back to one, and waits for what the request is answered with.
    async fn serve(
        &self,
        context: &RequestContext<RoleServer>,
        caller: &Caller,
        asked: Asked<'_>,
    ) -> Result<(Handle, Served), ErrorData> {
        let responses = asked.responses.unwrap_or_default();
        let (handle, serving) = match asked.state {
            Some(state) => {
                let unsound = || ErrorData::invalid_params("`requestState` is not whole", None);
                let named = request_state::read(&state).ok_or_else(unsound)?;
                let handle = self.server.known(&caller.principal, named).await?;
                self.server.require_same(handle, asked.tool).await?;
                (handle, Serving::resume(&self.server, caller, handle, responses))
            }
            None => {
                let handle = self.server.fresh(&caller.principal).await?;
                let (tool, arguments) = (asked.tool, asked.arguments);
                let begun =
                    Serving::begin(&self.server, caller, handle, tool, arguments, responses);
                (handle, begun.await?)
            }
        };
        let _under_way = self.under_way(context.id.clone(), handle);
        let served = serving.with_task_use(asked.task_use).finish().await?;
        if let Served::Done(_) | Served::Rejected(_) = &served {
            self.server.0.sessions.put_back(&caller.principal, handle.session);
            if let Some(kind) = self.server.0.questions.ended(handle.call) {
                return Err(outcomes::missing(kind));
            }
        }
        Ok((handle, served))
    }

    fn under_way(&self, id: RequestId, handle: Handle) -> UnderWay<'_> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.insert(id.clone(), handle);
        UnderWay { connection: self, id }
    }

    /// For requests that have no tasks and no handles: a result, or a need of input.
    async fn served_whole(
        &self,
        context: RequestContext<RoleServer>,
        asked: Asked<'_>,
    ) -> Result<Whole, ErrorData> {
        let caller = self.caller(&context)?;
        let (handle, served) = self.serve(&context, &caller, asked).await?;
        match served {
            Served::Done(outcome) => Ok(Whole::Done(outcome)),
            Served::Rejected(rejection) => {
                Err(ErrorData::invalid_params(rejection.message.clone(), None))
            }
            Served::Input(requests) => Ok(Whole::Input(self.input(handle, requests))),
            Served::Pending(waiting) => {
                Err(ErrorData::internal_error(self.server.whom(&waiting), None))
            }
            Served::Task | Served::Running => {
                Err(ErrorData::internal_error("it takes too long", None))
            }
        }
    }

    async fn await_call(
        &self,
        caller: &Caller,
        arguments: &Map<String, Value>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(text) = arguments.get("handle").and_then(Value::as_str) else {
            return Ok(self.server.waiting_of(&caller.principal).await?.into());
        };
        let handle = match self.server.known(&caller.principal, text).await {
            Ok(handle) => handle,
            Err(error) => return Ok(refused(&error.message).into()),
        };
        let seconds = arguments.get("wait_seconds").and_then(Value::as_u64);
        let patience = seconds.map_or(AWAIT, |s| Duration::from_secs(s.min(AWAIT_MAX)));
        let serving = Serving::resume(&self.server, caller, handle, Default::default());
        let serving = serving.with_patience(Patience::Either(patience));
        let served = serving.with_task_use(Some(TaskUse::Never)).finish().await?;
        self.answer(handle, served)
    }

    fn answer(&self, handle: Handle, served: Served) -> Result<CallToolResponse, ErrorData> {
        match served {
            Served::Done(outcome) => outcomes::result(&outcome).map(Into::into),
            Served::Rejected(rejection) => outcomes::rejection(&rejection).map(Into::into),
            Served::Input(requests) => Ok(self.input(handle, requests).into()),
            Served::Task => Ok(CreateTaskResult::new(self.server.new_task(handle)).into()),
            Served::Pending(waiting) => {
                let text = self.server.whom(&waiting);
                Ok(self.pending(handle, waiting.tool.as_str(), &text).into())
            }
            Served::Running => Ok(self.pending(handle, "", "the call still runs").into()),
        }
    }

    fn input(&self, handle: Handle, requests: InputRequests) -> InputRequiredResult {
        let state = request_state::write(handle, self.server.0.haft.now());
        InputRequiredResult::new(Some(requests), Some(state))
    }

    /// A result that says where the result will be.
    fn pending(&self, handle: Handle, tool: &str, how: &str) -> CallToolResult {
        let text = format!(
            "Not done yet: {how}. Nothing is lost and nothing has to be called again. To pick up \
             the result, call `{AWAIT_CALL}` with {}.",
            json!({"handle": handle.to_string()})
        );
        // Clients that hold a result against the tool's schema accept an error without one.
        let registered = self.server.0.haft.registry().get(tool);
        let has_schema = registered.is_some_and(|tool| tool.spec().output_schema.is_some());
        let content = vec![ContentBlock::text(text)];
        let mut result = match has_schema {
            true => CallToolResult::error(content),
            false => CallToolResult::success(content),
        };
        let meta = json!({"haft/pending": {"handle": handle.to_string()}});
        result.meta = serde_json::from_value(meta).ok();
        result
    }
}

/// What a request asks for.
struct Asked<'a> {
    tool: &'a str,
    arguments: Map<String, Value>,
    responses: Option<rmcp::model::InputResponses>,
    state: Option<String>,
    task_use: Option<TaskUse>,
}

/// What comes of a request that has no tasks and no handles.
enum Whole {
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

fn refused(message: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(message.to_owned())])
}

impl McpServer {
    /// A request that is made again must be the same request.
    async fn require_same(&self, handle: Handle, tool: &str) -> Result<(), ErrorData> {
        let stored = self.0.haft.store().call(handle.session, handle.call).await;
        match stored.map_err(|error| trouble(&error))? {
            Some(call) if call.tool == tool => Ok(()),
            _ => Err(ErrorData::invalid_params("`requestState` is another request's", None)),
        }
    }

    /// Lists the principal's calls that wait for someone.
    async fn waiting_of(&self, principal: &Principal) -> Result<CallToolResult, ErrorData> {
        let store = self.0.haft.store();
        let filter =
            PendingFilter { tenant: Some(principal.tenant.clone()), ..PendingFilter::default() };
        let pending = store.pending(&filter, &Page::first(LISTED_MAX)).await;
        let mut lines = Vec::new();
        for pending in pending.map_err(|error| trouble(&error))? {
            let handle = Handle { session: pending.session, call: pending.call };
            if self.is_of(principal, pending.session).await? {
                lines.push(format!("{handle}: `{}`", pending.tool));
            }
        }
        let text = match lines.is_empty() {
            true => "No call of yours waits for anyone.".to_owned(),
            false => lines.join("\n"),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]))
    }

    async fn artifact(
        &self,
        principal: &Principal,
        uri: &str,
    ) -> Result<Option<ReadResourceResult>, ErrorData> {
        let Some(id) = uri.strip_prefix("haft://artifacts/") else { return Ok(None) };
        let Ok(id) = id.parse::<ArtifactId>() else { return Ok(None) };
        let found = self.0.haft.store().artifact(&principal.tenant, id).await;
        let Some(found) = found.map_err(|error| trouble(&error))? else { return Ok(None) };
        let is_theirs = match found.session {
            Some(session) => self.is_of(principal, session).await?,
            None => true,
        };
        if !is_theirs {
            return Ok(None);
        }
        let contents = match String::from_utf8(found.body) {
            Ok(text) => ResourceContents::text(text, uri),
            Err(bytes) => ResourceContents::blob(crate::base64::encode(bytes.as_bytes()), uri),
        };
        let contents = contents.with_mime_type(found.reference.media_type);
        Ok(Some(ReadResourceResult::new(vec![contents])))
    }
}

impl ServerHandler for Connection {
    fn get_info(&self) -> ServerConfig {
        let settings = &self.server.0.settings;
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_completions()
            .enable_logging()
            .enable_tasks()
            .build();
        let info = ServerConfig::new(capabilities).with_server_info(Implementation::new(
            settings.name.clone(),
            env!("CARGO_PKG_VERSION"),
        ));
        match &settings.instructions {
            Some(instructions) => info.with_instructions(instructions.clone()),
            None => info,
        }
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let audience = Audience::Peer(context.peer, Arc::clone(&self.subscribed));
        let told = changes::tell(self.server.clone(), audience, self.closed.clone());
        tokio::spawn(told);
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let audience = Audience::Subscription(context.sink().clone());
        let closed = self.closed.child_token();
        tokio::select! {
            () = changes::tell(self.server.clone(), audience, closed) => {}
            () = context.cancelled() => {}
        }
        Ok(())
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.server.shown().tool(name).cloned()
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.server.shown().tools.clone();
        let result = ListToolsResult { tools, ..ListToolsResult::default() };
        Ok(result.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Private))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = self.caller(&context)?;
        let arguments = request.arguments.unwrap_or_default();
        if request.name == AWAIT_CALL {
            return self.await_call(&caller, &arguments).await;
        }
        let shown = self.server.shown();
        let Some(tool) = shown.called(&request.name) else {
            let name: String = request.name.chars().take(64).collect();
            return Err(ErrorData::invalid_params(format!("there is no tool {name:?}"), None));
        };
        let task_use = self.server.0.settings.tasks.get(tool).copied();
        let needs_tasks = matches!(task_use, Some(TaskUse::Required | TaskUse::RequiredAfterInput));
        if needs_tasks && !caller.knows_tasks {
            return Err(outcomes::tasks_missing());
        }
        let (responses, state) = (request.input_responses, request.request_state);
        let asked = Asked { tool: tool.as_str(), arguments, responses, state, task_use };
        let (handle, served) = self.serve(&context, &caller, asked).await?;
        self.answer(handle, served)
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = self.server.shown().prompts.clone();
        let result = ListPromptsResult { prompts, ..ListPromptsResult::default() };
        Ok(result.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Private))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if !self.server.shown().prompts.iter().any(|prompt| prompt.name == request.name) {
            return Err(ErrorData::invalid_params("there is no such prompt", None));
        }
        let asked = Asked {
            tool: &request.name,
            arguments: request.arguments.unwrap_or_default(),
            responses: request.input_responses,
            state: request.request_state,
            task_use: Some(TaskUse::Never),
        };
        match self.served_whole(context, asked).await? {
            Whole::Done(outcome) => outcomes::prompt(&outcome).map(Into::into),
            Whole::Input(input) => Ok(input.into()),
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources = self.server.resources();
        let result = ListResourcesResult { resources, ..ListResourcesResult::default() };
        Ok(result.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Private))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let resource_templates = self.server.templates();
        let result = ListResourceTemplatesResult {
            resource_templates,
            ..ListResourceTemplatesResult::default()
        };
        Ok(result.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Private))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let fresh = |result: ReadResourceResult| {
            result.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Private).into()
        };
        let principal = self.caller(&context)?.principal;
        if let Some(result) = self.server.artifact(&principal, &request.uri).await? {
            return Ok(fresh(result));
        }
        let sources = self.server.0.settings.resources.iter();
        let mut sources = sources.filter_map(|s| Some((s, s.arguments(&request.uri)?)));
        let Some((source, arguments)) = sources.next() else {
            let (uri, data) = (&request.uri, json!({"uri": request.uri}));
            return Err(ErrorData::resource_not_found(
                format!("there is no resource `{uri}`"),
                Some(data),
            ));
        };
        let asked = Asked {
            tool: source.tool.as_str(),
            arguments: arguments.into_iter().map(|(name, v)| (name, Value::from(v))).collect(),
            responses: request.input_responses,
            state: request.request_state,
            task_use: Some(TaskUse::Never),
        };
        match self.served_whole(context, asked).await? {
            Whole::Done(outcome) => {
                let mime_type = source.mime_type.as_deref();
                outcomes::resource(&outcome, &request.uri, mime_type).map(fresh)
            }
            Whole::Input(input) => Ok(input.into()),
        }
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner) = request.level;
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner).insert(request.uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner).remove(&request.uri);
        Ok(())
    }

    async fn on_cancelled(
        &self,
        notification: CancelledNotificationParam,
        context: NotificationContext<RoleServer>,
    ) {
        let Some(id) = notification.request_id else { return };
        let handle = {
            let under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
            under_way.get(&id).copied()
        };
        let over_http = context.extensions.get::<http::request::Parts>();
        let principal = over_http.and_then(|parts| parts.extensions.get());
        if let (Some(handle), Some(principal)) = (handle, principal.or(self.principal.as_ref())) {
            // A notification has no answer.
            self.server.stop(handle, principal, "its client cancelled it").await.ok();
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let principal = self.caller(&context)?.principal;
        Ok(GetTaskResult::new(self.server.task(&principal, &request.task_id).await?))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let principal = self.caller(&context)?.principal;
        self.server.update(&principal, &request.task_id, request.input_responses).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let principal = self.caller(&context)?.principal;
        let handle = self.server.known(&principal, &request.task_id).await?;
        self.server.stop(handle, &principal, "its client cancelled the task").await
    }
}
