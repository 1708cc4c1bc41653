//! The least that a proxy can be: an rmcp server whose calls an rmcp client makes elsewhere.
//!
//! usage: rmcp_proxy PORT URL

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ServerCapabilities, ServerConfig,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, Peer, RequestContext, RoleClient, RoleServer,
    ServiceError,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::ServerHandler;

#[derive(Clone)]
struct Proxy(Peer<RoleClient>);

impl ServerHandler for Proxy {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.0.list_tools(request).await.map_err(failed)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.0.call_tool(request).await.map(Into::into).map_err(failed)
    }
}

fn failed(error: ServiceError) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(port), Some(url)) = (args.next(), args.next()) else {
        return Err("usage: rmcp_proxy PORT URL".into());
    };
    rustls::crypto::ring::default_provider().install_default().ok();
    let lifecycle = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: None,
    };
    let transport = StreamableHttpClientTransport::from_uri(url);
    let client = ().serve_with_lifecycle(transport, lifecycle).await?;
    let proxy = Proxy(client.peer().clone());
    bench_mcp::serve(port.parse()?, move || proxy.clone()).await
}
