//! Haft as an MCP server without a store.

use std::sync::Arc;

use haft_core::tool::Executor;
use haft_runtime::{CallError, Direct};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, JsonObject, ListToolsResult, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};

use super::handler::Server;
use super::http::{HttpDoor, McpService};
use super::listing::{Listing, Shown};
use super::once::require_no_key;
use super::{caller, once, outcomes};
use crate::principal::Principal;

/// Tools for MCP clients without a store: a call is checked, permitted and run as in a session,
/// and nothing is recorded. What would have to wait for someone is refused, and nothing is asked of
/// the client. A clone shares it.
#[derive(Clone)]
pub struct DirectServer(Arc<Shared>);

struct Shared {
    direct: Direct,
    name: String,
    listing: Listing,
}

impl DirectServer {
    /// Serves tools under a name that clients are told.
    pub fn new(direct: Direct, name: &str) -> Self {
        let (name, listing) = (name.to_owned(), Listing::default());
        Self(Arc::new(Shared { direct, name, listing }))
    }

    /// Returns the service to mount, for example at `/mcp`.
    pub fn http(&self, door: HttpDoor) -> McpService {
        McpService::behind(door, Server::Direct(self.clone()))
    }

    pub(super) fn shown(&self) -> Arc<Shown> {
        let direct = &self.0.direct;
        self.0.listing.of(direct.toolbox().registry().generation(), || {
            let mut shown = Shown::default();
            let offered = direct.advertised();
            let runs_here =
                offered.tools().iter().filter(|it| it.spec().executor == Executor::Server);
            runs_here.for_each(|registered| shown.add(registered));
            shown
        })
    }

    pub(super) fn info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let who = Implementation::new(self.0.name.clone(), env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities).with_server_info(who)
    }

    pub(super) fn tool(&self, name: &str) -> Option<Tool> {
        self.shown().tool(name).cloned()
    }

    pub(super) fn list_tools(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(self.shown().tools_of(&caller::principal(context, None)?.tenant))
    }

    pub(super) async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let principal = caller::principal(&context, None)?;
        require_no_key(once::key(&context)?.as_deref())?;
        let arguments = request.arguments.unwrap_or_default();
        tokio::select! {
            // On the heap: rmcp moves the future of a request several times.
            ended = Box::pin(self.called(principal, &request.name, arguments)) => ended,
            () = context.ct.cancelled() => {
                Err(ErrorData::internal_error("its client stopped waiting for it", None))
            }
        }
    }

    /// Makes a call. Whoever stops waiting for it stops it.
    pub(super) async fn called(
        &self,
        principal: &Principal,
        name: &str,
        arguments: JsonObject,
    ) -> Result<CallToolResponse, ErrorData> {
        let Principal { actor, tenant } = principal.clone();
        let shown = self.shown();
        let tool = shown.called(name, &tenant).ok_or_else(|| outcomes::no_tool(name))?;
        let result = match self.0.direct.call_as(actor, tool.as_str(), arguments).await {
            Ok(outcome) => outcomes::result(&outcome),
            Err(CallError::Rejected(rejection)) => outcomes::rejection(&rejection),
            Err(error) => Ok(refused(&error)),
        };
        result.map(Into::into)
    }
}

fn refused(error: &CallError) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(error.to_string())])
}

impl std::fmt::Debug for DirectServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectServer").field("direct", &self.0.direct).finish_non_exhaustive()
    }
}
