//! What carries the messages to a mounted server and back.

use std::borrow::Cow;
use std::io;

use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use tokio_util::either::Either;

use super::program::Program;
use super::streamable::{HttpPeer, RequestError};

/// One type for each way, so that the protocol is compiled once.
pub(super) enum Carrier {
    /// The stdin and stdout of a program.
    Process(Box<Program>),
    /// HTTP.
    Http(StreamableHttpClientTransport<HttpPeer>),
}

/// Why a message was not carried: what the way itself says, and nothing beside it.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotCarried {
    #[error(transparent)]
    Process(#[from] io::Error),
    #[error(transparent)]
    Http(#[from] StreamableHttpError<RequestError>),
}

impl Transport<RoleClient> for Carrier {
    type Error = NotCarried;

    /// Stands in what is said of a broken connection, where the name of a type says nothing.
    fn name() -> Cow<'static, str> {
        "MCP".into()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), NotCarried>> + Send + 'static {
        match self {
            Self::Process(process) => Either::Left(carried(process.send(item))),
            Self::Http(http) => Either::Right(carried(http.send(item))),
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        match self {
            Self::Process(process) => process.receive().await,
            Self::Http(http) => http.receive().await,
        }
    }

    async fn close(&mut self) -> Result<(), NotCarried> {
        match self {
            Self::Process(process) => Ok(process.close().await?),
            Self::Http(http) => Ok(http.close().await?),
        }
    }
}

async fn carried<E: Into<NotCarried>>(
    sending: impl Future<Output = Result<(), E>>,
) -> Result<(), NotCarried> {
    sending.await.map_err(Into::into)
}
