//! A connection that comes back: when the database went away, the next statement connects again.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use super::address::Address;
use super::pooler;
use crate::error::{Error, ErrorKind};

pub(super) type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Where to connect, and the connection if there is one.
#[derive(Debug)]
pub(super) struct Link {
    address: Address,
    current: tokio::sync::Mutex<Current>,
}

#[derive(Debug, Default)]
struct Current {
    connected: Option<Arc<Connected>>,
    /// When the last try to connect failed, and why.
    failed: Option<(Instant, Error)>,
}

impl Link {
    pub(super) fn new(address: &Address) -> Self {
        Self { address: address.clone(), current: tokio::sync::Mutex::default() }
    }

    /// Returns a connection that is alive as far as anyone knows.
    pub(super) async fn connected(&self) -> Result<Arc<Connected>, Error> {
        let arrived = Instant::now();
        let mut current = self.current.lock().await;
        if let Some(connected) = current.connected.as_ref().filter(|it| !it.is_closed()) {
            return Ok(Arc::clone(connected));
        }
        // All who waited for a try share its failure: one after the other they would wait for long.
        if let Some((_, error)) = current.failed.as_ref().filter(|(at, _)| *at >= arrived) {
            return Err(error.clone());
        }
        match Connected::connect(&self.address).await {
            Ok(connected) => {
                let connected = Arc::new(connected);
                current.connected = Some(Arc::clone(&connected));
                Ok(connected)
            }
            Err(error) => {
                current.failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// Runs a statement that may be repeated, and repeats it once when the connection turns out
    /// to be one from before the database was away.
    pub(super) async fn query(
        &self,
        sql: &'static str,
        values: Values<'_>,
    ) -> Result<Vec<Row>, Error> {
        let connected = self.connected().await?;
        match connected.query(sql, values).await {
            Err(error) if is_lost(&error) => {
                let connected = self.fresh(&connected).await?;
                connected.query(sql, values).await.map_err(|error| trouble(&error))
            }
            result => result.map_err(|error| trouble(&error)),
        }
    }

    /// Gives a connection up that was found to be lost, and connects again.
    pub(super) async fn fresh(&self, lost: &Arc<Connected>) -> Result<Arc<Connected>, Error> {
        {
            let mut current = self.current.lock().await;
            if current.connected.as_ref().is_some_and(|connected| Arc::ptr_eq(connected, lost)) {
                current.connected = None;
            }
        }
        self.connected().await
    }
}

/// A connection and the statements that it has prepared.
#[derive(Debug)]
pub(super) struct Connected {
    client: Client,
    /// What reads and writes the socket.
    wire: AbortHandle,
    answer_max: Duration,
    statements: Mutex<HashMap<&'static str, Statement>>,
}

type Answer<T> = Result<T, tokio_postgres::Error>;

impl Connected {
    async fn connect(address: &Address) -> Result<Self, Error> {
        let (client, connection) = address.connect().await?;
        // Ends with the client; what went wrong reaches whoever waits for an answer.
        let wire = tokio::spawn(async move { drop(connection.await) }).abort_handle();
        let answer_max = address.answer_max();
        let connected = Self { client, wire, answer_max, statements: Mutex::default() };
        let set = connected.run(&address.settings()).await;
        set.map_err(|error| trouble(&error))?;
        Ok(connected)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    pub(super) async fn query(&self, sql: &'static str, values: Values<'_>) -> Answer<Vec<Row>> {
        let statement = self.prepared(sql).await?;
        self.in_time(self.client.query(&statement, values)).await
    }

    pub(super) async fn execute(&self, sql: &'static str, values: Values<'_>) -> Answer<u64> {
        let statement = self.prepared(sql).await?;
        self.in_time(self.client.execute(&statement, values)).await
    }

    /// Runs statements without values or results, such as `BEGIN`.
    pub(super) async fn run(&self, sql: &str) -> Answer<()> {
        self.in_time(self.client.batch_execute(sql)).await
    }

    /// Prepares a statement ahead of its use, so that using it sends it at once and in order.
    pub(super) async fn prepared(&self, sql: &'static str) -> Answer<Statement> {
        let known = self.statements().get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.in_time(self.client.prepare(sql)).await?;
        self.statements().insert(sql, statement.clone());
        Ok(statement)
    }

    /// Hangs up when an answer does not come: whoever waits on this connection is then told that
    /// it is closed, as if the other side had.
    async fn in_time<T>(&self, answer: impl Future<Output = Answer<T>>) -> Answer<T> {
        let mut answer = pin!(answer);
        match tokio::time::timeout(self.answer_max, &mut answer).await {
            Ok(answer) => answer,
            Err(_) => {
                self.wire.abort();
                answer.await
            }
        }
    }

    fn statements(&self) -> std::sync::MutexGuard<'_, HashMap<&'static str, Statement>> {
        self.statements.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the connection is gone, or going, and with it what was under way.
pub(super) fn is_lost(error: &tokio_postgres::Error) -> bool {
    match error.as_db_error() {
        Some(error) => {
            let fatal = matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic));
            fatal || error.code().code().starts_with("57P") || error.code().code().starts_with("08")
        }
        // Neither the server's word nor a value that could not be converted.
        None => error.is_closed() || is_io(error),
    }
}

/// Whether the server did not do it and may do it when asked again: a lock that was held for too
/// long, a deadlock, a cancelled statement.
fn is_passing(error: &tokio_postgres::Error) -> bool {
    matches!(error.code().map(SqlState::code), Some("40001" | "40P01" | "55P03" | "57014"))
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(<dyn std::error::Error>::is::<std::io::Error>)
}

/// Sorts what PostgreSQL reports by who can do something about it.
pub(super) fn trouble(error: &tokio_postgres::Error) -> Error {
    let kind = match error.code() {
        Some(code) if *code == SqlState::DISK_FULL => ErrorKind::DiskFull,
        Some(code) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => ErrorKind::ReadOnly,
        Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => ErrorKind::ReadOnly,
        Some(code) if *code == SqlState::DUPLICATE_TABLE => ErrorKind::WrongFile,
        Some(code) if *code == SqlState::DATA_CORRUPTED => ErrorKind::Corrupt,
        Some(_) if is_repeated(error) => ErrorKind::Repeated,
        Some(code) if *code == SqlState::IO_ERROR => ErrorKind::Stopped,
        Some(_) if pooler::is_refused_greeting(error) => ErrorKind::Invalid,
        // A wrong name or password ends the connection too, and stays wrong.
        Some(code) if matches!(&code.code()[..2], "28" | "3D") => ErrorKind::Invalid,
        Some(_) if is_lost(error) || is_passing(error) => ErrorKind::Gone,
        Some(code) => match &code.code()[..2] {
            "22" | "23" => ErrorKind::Invalid,
            "53" => ErrorKind::Gone,
            _ => ErrorKind::Internal,
        },
        None if is_refused_handshake(error) => ErrorKind::Invalid,
        None if is_lost(error) || is_connecting(error) => ErrorKind::Gone,
        None => ErrorKind::Internal,
    };
    let context = format!("PostgreSQL: {}", described(error));
    match pooler::is_refused_greeting(error) {
        true => Error::new(kind, format!("{context}; {}", pooler::REFUSED_GREETING)),
        false => Error::new(kind, context),
    }
}

/// Whether the step of a request was there already.
fn is_repeated(error: &tokio_postgres::Error) -> bool {
    let of_requests =
        |error: &tokio_postgres::error::DbError| error.constraint() == Some("requests_pkey");
    error.code() == Some(&SqlState::UNIQUE_VIOLATION)
        && error.as_db_error().is_some_and(of_requests)
}

/// Whether the two do not agree on TLS, or the certificate is not to be trusted: it will not get
/// better by itself.
fn is_refused_handshake(error: &tokio_postgres::Error) -> bool {
    let source = std::error::Error::source(error);
    let io = source.and_then(<dyn std::error::Error>::downcast_ref::<std::io::Error>);
    error.to_string().starts_with("error performing TLS handshake")
        && io.is_none_or(|io| io.kind() == std::io::ErrorKind::InvalidData)
}

fn is_connecting(error: &tokio_postgres::Error) -> bool {
    error.to_string().starts_with("error connecting") || error.to_string().contains("timeout")
}

/// The driver's own words leave out the server's.
pub(super) fn described(error: &tokio_postgres::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
