//! What rmcp serves: one type for both servers, so that its machinery is compiled once.

use haft_store::Tenant;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskMethod, CancelTaskParams,
    CancelledNotificationParam, ErrorData, GetPromptRequestMethod, GetPromptRequestParams,
    GetPromptResponse, GetTaskMethod, GetTaskParams, GetTaskResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestMethod, ReadResourceRequestParams, ReadResourceResponse, ServerConfig,
    SetLevelRequestMethod, SetLevelRequestParams, SubscribeRequestMethod, SubscribeRequestParams,
    SubscriptionFilter, Tool, UnsubscribeRequestMethod, UnsubscribeRequestParams, UpdateTaskMethod,
    UpdateTaskParams,
};
use rmcp::service::{
    MaybeSendFuture, NotificationContext, RequestContext, RoleServer, SubscriptionContext,
};
use tokio_util::either::Either;

use super::McpServer;
use super::connection::Connection;
use super::direct::DirectServer;
use super::once::require_no_key;
use super::plain::PlainCall;
use crate::principal::Principal;

/// What answers a client. What a server does not offer is answered as rmcp answers it by itself.
///
/// rmcp moves the future of a request several times, and it has room for that of any request: so
/// all but the calls are on the heap as a whole.
pub(super) enum Handler {
    /// Calls are recorded.
    Stored(Connection),
    /// Nothing is recorded, and there are only tools.
    Direct(DirectServer),
}

/// What stands behind a door.
#[derive(Clone)]
pub(super) enum Server {
    /// Calls are recorded.
    Stored(McpServer),
    /// Nothing is recorded, and there are only tools.
    Direct(DirectServer),
}

impl Server {
    pub(super) fn connect(&self) -> Handler {
        match self {
            Self::Stored(server) => Handler::Stored(Connection::new(server.clone(), None)),
            Self::Direct(server) => Handler::Direct(server.clone()),
        }
    }

    /// Returns whether a tenant's client may call a tool by a request that says nothing else.
    pub(super) fn calls_plainly(&self, name: &str, tenant: &Tenant) -> bool {
        match self {
            Self::Stored(server) => server.shown().calls_plainly(name, tenant),
            Self::Direct(server) => server.shown().calls_plainly(name, tenant),
        }
    }

    pub(super) async fn call(
        &self,
        principal: Principal,
        call: PlainCall,
    ) -> Result<CallToolResponse, ErrorData> {
        match self {
            Self::Stored(server) => server.call_plainly(principal, call).await,
            Self::Direct(server) => {
                require_no_key(call.key.as_deref())?;
                server.called(&principal, &call.name, call.arguments).await
            }
        }
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        match self {
            Self::Stored(connection) => connection.info(),
            Self::Direct(server) => server.info(),
        }
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        match self {
            Self::Stored(connection) => connection.tell_changes(context.peer),
            Self::Direct(_) => {}
        }
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        match self {
            Self::Stored(connection) => {
                Some(requested.supported_by(&connection.info().capabilities))
            }
            Self::Direct(_) => None,
        }
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        match self {
            Self::Stored(connection) => Box::pin(connection.listen(context)).await,
            Self::Direct(_) => {
                context.cancelled().await;
                Ok(())
            }
        }
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        match self {
            Self::Stored(connection) => connection.tool(name),
            Self::Direct(server) => server.tool(name),
        }
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        match self {
            Self::Stored(connection) => connection.list_tools(&context),
            Self::Direct(server) => server.list_tools(&context),
        }
    }

    /// Not an `async fn`, which would hold what it passes on beside what it passes it on to.
    fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<CallToolResponse, ErrorData>> + MaybeSendFuture + '_ {
        match self {
            Self::Stored(connection) => Either::Left(connection.call_tool(request, context)),
            Self::Direct(server) => Either::Right(server.call_tool(request, context)),
        }
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        match self {
            Self::Stored(connection) => Ok(connection.list_prompts()),
            Self::Direct(_) => Ok(ListPromptsResult::default()),
        }
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        match self {
            Self::Stored(connection) => Box::pin(connection.get_prompt(request, context)).await,
            Self::Direct(_) => Err(ErrorData::method_not_found::<GetPromptRequestMethod>()),
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        match self {
            Self::Stored(connection) => Ok(connection.list_resources()),
            Self::Direct(_) => Ok(ListResourcesResult::default()),
        }
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        match self {
            Self::Stored(connection) => Ok(connection.list_resource_templates()),
            Self::Direct(_) => Ok(ListResourceTemplatesResult::default()),
        }
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match self {
            Self::Stored(connection) => Box::pin(connection.read_resource(request, context)).await,
            Self::Direct(_) => Err(ErrorData::method_not_found::<ReadResourceRequestMethod>()),
        }
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        match self {
            Self::Stored(connection) => {
                connection.set_level(request.level);
                Ok(())
            }
            Self::Direct(_) => Err(ErrorData::method_not_found::<SetLevelRequestMethod>()),
        }
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        match self {
            Self::Stored(connection) => {
                connection.subscribe(request.uri);
                Ok(())
            }
            Self::Direct(_) => Err(ErrorData::method_not_found::<SubscribeRequestMethod>()),
        }
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        match self {
            Self::Stored(connection) => {
                connection.unsubscribe(&request.uri);
                Ok(())
            }
            Self::Direct(_) => Err(ErrorData::method_not_found::<UnsubscribeRequestMethod>()),
        }
    }

    async fn on_cancelled(
        &self,
        notification: CancelledNotificationParam,
        context: NotificationContext<RoleServer>,
    ) {
        match self {
            Self::Stored(connection) => Box::pin(connection.stop(notification, context)).await,
            Self::Direct(_) => {}
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        match self {
            Self::Stored(connection) => Box::pin(connection.get_task(request, context)).await,
            Self::Direct(_) => Err(ErrorData::method_not_found::<GetTaskMethod>()),
        }
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        match self {
            Self::Stored(connection) => Box::pin(connection.update_task(request, context)).await,
            Self::Direct(_) => Err(ErrorData::method_not_found::<UpdateTaskMethod>()),
        }
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        match self {
            Self::Stored(connection) => Box::pin(connection.cancel_task(request, context)).await,
            Self::Direct(_) => Err(ErrorData::method_not_found::<CancelTaskMethod>()),
        }
    }
}
