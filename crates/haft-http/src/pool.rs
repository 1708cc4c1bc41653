//! The connections of a client: the one that a request goes over, and those that wait for the next.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How many connections of one client wait at most.
const IDLE_MAX: usize = 64;
/// How long a connection waits at least before it is closed; at most twice as long.
const IDLE_FOR: Duration = Duration::from_secs(60);

/// A connection over which one request goes at a time.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) sender: http1::SendRequest<Full<Bytes>>,
    /// Whether an answer came over it before: the other side may be about to close it.
    pub(crate) was_used: bool,
    _driver: Driver,
}

/// The task that moves a connection's bytes; the connection closes when this is dropped.
#[derive(Debug)]
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Connection {
    pub(crate) async fn over<S>(stream: S) -> Result<Self, hyper::Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // What goes wrong with the connection is told to whoever reads the answer.
        let driver = Driver(tokio::spawn(async move { connection.await.unwrap_or_default() }));
        Ok(Self { sender, was_used: false, _driver: driver })
    }
}

/// The connections of a client that wait for the next request.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// The one that waits longest comes first.
    connections: VecDeque<(Instant, Connection)>,
    /// Whether a task closes those that wait too long.
    is_watched: bool,
}

impl Pool {
    /// Takes the connection that was used last and is still open.
    pub(crate) async fn take(&self) -> Option<Connection> {
        loop {
            let (_, mut connection) = self.waiting().connections.pop_back()?;
            if connection.sender.ready().await.is_ok() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection whose answer was read to its end.
    pub(crate) fn keep(self: &Arc<Self>, mut connection: Connection) {
        if connection.sender.is_closed() {
            return;
        }
        connection.was_used = true;
        let mut waiting = self.waiting();
        waiting.connections.push_back((Instant::now(), connection));
        if waiting.connections.len() > IDLE_MAX {
            waiting.connections.pop_front();
        }
        if !std::mem::replace(&mut waiting.is_watched, true) {
            tokio::spawn(watch(Arc::downgrade(self)));
        }
    }

    /// Closes what waits too long, and returns whether anything waits still.
    fn close_old(&self) -> bool {
        let mut waiting = self.waiting();
        waiting.connections.retain(|(since, connection)| {
            since.elapsed() < IDLE_FOR && !connection.sender.is_closed()
        });
        waiting.is_watched = !waiting.connections.is_empty();
        waiting.is_watched
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn watch(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(IDLE_FOR).await;
        if !pool.upgrade().is_some_and(|pool| pool.close_old()) {
            return;
        }
    }
}
