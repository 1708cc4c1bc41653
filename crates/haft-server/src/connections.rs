//! The connections: each is given as long as a stage of a request may take and no longer, so
//! that neither a slow client nor one that has gone away without a word holds the server.

use std::io;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// How long a client may take for the head of a request, also between two requests.
const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// How long it may be silent within the body of one.
const BODY_SILENCE_MAX: Duration = Duration::from_secs(10);

/// How long what is being answered may go on when the server is to stop.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// How long nobody is let in after the system refused, as when there are too many open files.
const REFUSED_FOR: Duration = Duration::from_millis(100);

/// Answers until the server is to stop, then lets what is being answered end.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
) -> io::Result<()> {
    let open = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        match accepted {
            Ok((connection, _)) => answer(connection, &router, &open),
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(REFUSED_FOR).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(ANSWERS_WITHIN, open.shutdown()).await.is_err() {
        tracing::warn!("some clients are left without the rest of their answer");
    }
    Ok(())
}

fn answer(connection: TcpStream, router: &Router, open: &GracefulShutdown) {
    // Small frames go out at once.
    if let Err(error) = connection.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
    let service = TowerToHyperService::new(router.clone());
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .serve_connection(TokioIo::new(connection), service);
    let connection = open.watch(connection);
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection broke off");
        }
    });
}

/// Ends a request whose body does not come.
pub(crate) fn impatient(request: Request) -> Request {
    let (head, body) = request.into_parts();
    let silent = || io::Error::new(io::ErrorKind::TimedOut, "the body does not come");
    let pieces = unfold(Some(body.into_data_stream()), move |pieces| async move {
        let mut pieces = pieces?;
        match tokio::time::timeout(BODY_SILENCE_MAX, pieces.next()).await {
            Ok(None) => None,
            Ok(Some(Ok(piece))) => Some((Ok(piece), Some(pieces))),
            Ok(Some(Err(error))) => Some((Err(io::Error::other(error)), None)),
            Err(_) => Some((Err(silent()), None)),
        }
    });
    Request::from_parts(head, Body::from_stream(pieces))
}
