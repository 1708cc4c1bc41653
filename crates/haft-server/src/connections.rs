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
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::limits::{ConnectionSlot, Limits};
use crate::wire::Wire;

/// How long a client may take for the TLS handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// How long a client may take for the head of a request, also between two requests.
const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// How long it may be silent within the body of one.
const BODY_SILENCE_MAX: Duration = Duration::from_secs(10);

/// The largest head of a request.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// What a connection too many is told, if it reads it.
const TOO_MANY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
                          content-length: 0\r\n\r\n";

/// How long nobody is let in after the system refused, as when there are too many open files.
const REFUSED_FOR: Duration = Duration::from_millis(100);

/// Answers until the server is to stop, then lets what is being answered end, for as long as is
/// given with the signal to stop.
pub(crate) async fn serve(
    (listener, limits): (TcpListener, Limits),
    tls: Option<TlsAcceptor>,
    router: Router,
    (stop, stop_timeout): (CancellationToken, Duration),
) -> io::Result<()> {
    let open = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        match accepted {
            Ok((connection, peer)) => match limits.connect(peer.ip().to_canonical()) {
                Some(slot) => begin((connection, slot), tls.as_ref(), &router, (&open, &stop)),
                None => refuse(&connection, tls.is_some()),
            },
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(REFUSED_FOR).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(stop_timeout, open.shutdown()).await.is_err() {
        tracing::warn!("some clients are left without the rest of their answer");
    }
    Ok(())
}

/// Tells a client that there are too many connections, as far as that can be done without waiting.
fn refuse(connection: &TcpStream, is_encrypted: bool) {
    tracing::debug!("a connection was refused: there are too many");
    if !is_encrypted {
        // Whoever does not read it finds the connection closed.
        connection.try_write(TOO_MANY).ok();
    }
}

/// Answers a connection in a task of its own, so that a slow handshake holds nobody else up.
fn begin(
    (connection, slot): (TcpStream, ConnectionSlot),
    tls: Option<&TlsAcceptor>,
    router: &Router,
    (open, stop): (&GracefulShutdown, &CancellationToken),
) {
    // Small frames go out at once.
    if let Err(error) = connection.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
    let (router, watcher) = (router.clone(), open.watcher());
    let Some(tls) = tls.cloned() else {
        drop(tokio::spawn(async move {
            answer(Wire::Plain(connection), router, watcher).await;
            drop(slot);
        }));
        return;
    };
    let stop = stop.clone();
    drop(tokio::spawn(async move {
        let encrypted = tokio::select! {
            encrypted = encrypt(connection, tls) => encrypted,
            () = stop.cancelled() => return,
        };
        match encrypted {
            Ok(wire) => answer(wire, router, watcher).await,
            Err(error) => tracing::debug!(%error, "a TLS handshake failed"),
        }
        drop(slot);
    }));
}

/// Does the server's part of the TLS handshake.
async fn encrypt(connection: TcpStream, tls: TlsAcceptor) -> io::Result<Wire> {
    match tokio::time::timeout(HANDSHAKE_WITHIN, tls.accept(connection)).await {
        Ok(encrypted) => Ok(Wire::Encrypted(Box::new(encrypted?))),
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the client did not finish it")),
    }
}

async fn answer(wire: Wire, router: Router, watcher: Watcher) {
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(wire), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection broke off");
    }
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
