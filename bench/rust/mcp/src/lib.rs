//! What the servers here have in common: one way to listen, without Nagle's delays.

use std::error::Error;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;

/// Serves a handler on the port, answering in JSON, which costs rmcp the least.
pub async fn serve<H: ServerHandler>(
    port: u16,
    handler: impl Fn() -> H + Send + Sync + 'static,
) -> Result<(), Box<dyn Error>> {
    let config = StreamableHttpServerConfig::default().with_json_response(true);
    let sessions = LocalSessionManager::default().into();
    let service = StreamableHttpService::new(move || Ok(handler()), sessions, config);
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = TowerToHyperService::new(service.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move { connection.await.ok() });
    }
}
