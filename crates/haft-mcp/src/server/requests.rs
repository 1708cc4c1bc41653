//! What is done for each request of a client.

use std::sync::{Arc, PoisonError};

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams,
    CancelledNotificationParam, ErrorData, GetPromptRequestParams, GetPromptResponse,
    GetTaskParams, GetTaskResult, Implementation, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, LoggingLevel, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, ServerCapabilities, ServerConfig, Tool,
    UpdateTaskParams,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, RoleServer, SubscriptionContext};
use serde_json::{Value, json};

use super::changes::{self, Audience};
use super::connection::{Asked, Connection, Whole};
use super::listing::AWAIT_CALL;
use super::settings::TaskUse;
use super::{once, outcomes};

/// How long clients may keep what they were shown; changes are told besides.
pub(super) const TTL_MS: u64 = 60_000;

impl Connection {
    pub(super) fn info(&self) -> ServerConfig {
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

    /// Tells the client of changes for as long as it is connected.
    pub(super) fn tell_changes(&self, peer: Peer<RoleServer>) {
        let audience = Audience::Peer(peer, Arc::clone(&self.subscribed));
        let told = changes::tell(self.server.clone(), audience, self.closed.clone());
        tokio::spawn(told);
    }

    pub(super) async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let audience = Audience::Subscription(context.sink().clone());
        let closed = self.closed.child_token();
        tokio::select! {
            () = changes::tell(self.server.clone(), audience, closed) => {}
            () = context.cancelled() => {}
        }
        Ok(())
    }

    pub(super) fn tool(&self, name: &str) -> Option<Tool> {
        self.server.shown().tool(name).cloned()
    }

    pub(super) fn list_tools(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(self.server.shown().tools_of(&self.caller(context)?.principal.tenant))
    }

    pub(super) async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = self.caller(&context)?;
        let arguments = request.arguments.unwrap_or_default();
        if request.name == AWAIT_CALL {
            return Box::pin(self.await_call(&caller, &arguments)).await;
        }
        let (responses, state) = (request.input_responses, request.request_state);
        let asked = self.server.asked(&caller, &request.name, arguments)?;
        let asked = Asked { responses, state, key: once::key(&context)?, ..asked };
        // On the heap: rmcp moves the future of a request several times.
        let (handle, served) = Box::pin(self.serve(&context, &caller, asked)).await?;
        self.server.answer(handle, served)
    }

    pub(super) fn list_prompts(&self) -> ListPromptsResult {
        let prompts = self.server.shown().prompts.clone();
        let result = ListPromptsResult { prompts, ..ListPromptsResult::default() };
        result.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Private)
    }

    pub(super) async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let is_shown = self.server.shown().prompts.iter().any(|it| it.name == request.name);
        let tool = request.name.parse().ok().filter(|_| is_shown);
        let asked = Asked {
            tool: tool.ok_or_else(|| ErrorData::invalid_params("there is no such prompt", None))?,
            arguments: request.arguments.unwrap_or_default(),
            responses: request.input_responses,
            state: request.request_state,
            task_use: Some(TaskUse::Never),
            key: None,
        };
        match self.served_whole(context, asked).await? {
            Whole::Done(outcome) => outcomes::prompt(&outcome).map(Into::into),
            Whole::Input(input) => Ok(input.into()),
        }
    }

    pub(super) fn list_resources(&self) -> ListResourcesResult {
        let resources = self.server.resources();
        let result = ListResourcesResult { resources, ..ListResourcesResult::default() };
        result.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Private)
    }

    pub(super) fn list_resource_templates(&self) -> ListResourceTemplatesResult {
        let resource_templates = self.server.templates();
        let result = ListResourceTemplatesResult {
            resource_templates,
            ..ListResourceTemplatesResult::default()
        };
        result.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Private)
    }

    pub(super) async fn read_resource(
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
            tool: source.tool.clone(),
            arguments: arguments.into_iter().map(|(name, v)| (name, Value::from(v))).collect(),
            responses: request.input_responses,
            state: request.request_state,
            task_use: Some(TaskUse::Never),
            key: None,
        };
        match self.served_whole(context, asked).await? {
            Whole::Done(outcome) => {
                let mime_type = source.mime_type.as_deref();
                outcomes::resource(&outcome, &request.uri, mime_type).map(fresh)
            }
            Whole::Input(input) => Ok(input.into()),
        }
    }

    pub(super) fn set_level(&self, level: LoggingLevel) {
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner) = level;
    }

    pub(super) fn subscribe(&self, uri: String) {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner).insert(uri);
    }

    pub(super) fn unsubscribe(&self, uri: &str) {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner).remove(uri);
    }

    /// Stops the call of a request that the client has cancelled.
    pub(super) async fn stop(
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

    pub(super) async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let principal = self.caller(&context)?.principal;
        Ok(GetTaskResult::new(self.server.task(&principal, &request.task_id).await?))
    }

    pub(super) async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let principal = self.caller(&context)?.principal;
        self.server.update(&principal, &request.task_id, request.input_responses).await
    }

    pub(super) async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let principal = self.caller(&context)?.principal;
        let handle = self.server.known(&principal, &request.task_id).await?;
        self.server.stop(handle, &principal, "its client cancelled the task").await
    }
}
