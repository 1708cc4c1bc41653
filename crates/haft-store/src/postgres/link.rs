//! A connection that comes back: when the database went away, the next statement connects again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row, Statement};

use crate::error::{Error, ErrorKind};

pub(super) type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Settings that every connection has.
pub(super) fn config(url: &str) -> Result<Config, Error> {
    let invalid = |error: tokio_postgres::Error| {
        let context = format!("the address of the database: {}", described(&error));
        Error::new(ErrorKind::Invalid, context)
    };
    let mut config: Config = url.parse().map_err(invalid)?;
    // A node that is frozen inside a transaction holds rows that the others need, and whoever waits
    // for them holds up everything behind it on its connection: both are ended by the server.
    let given = config.get_options().unwrap_or_default();
    let limits = format!(
        "{given} -cidle_in_transaction_session_timeout=5s -clock_timeout=2s \
         -ctcp_keepalives_idle=10 -ctcp_keepalives_interval=5 -ctcp_keepalives_count=2"
    );
    config.options(limits.trim_start());
    config.application_name("haft");
    config.connect_timeout(Duration::from_secs(5));
    config.keepalives_idle(Duration::from_secs(10));
    config.tcp_user_timeout(Duration::from_secs(20));
    Ok(config)
}

/// Where to connect, and the connection if there is one.
#[derive(Debug)]
pub(super) struct Link {
    config: Config,
    current: tokio::sync::Mutex<Option<Arc<Connected>>>,
}

impl Link {
    pub(super) fn new(config: &Config) -> Self {
        Self { config: config.clone(), current: tokio::sync::Mutex::new(None) }
    }

    /// Returns a connection that is alive as far as anyone knows.
    pub(super) async fn connected(&self) -> Result<Arc<Connected>, Error> {
        let mut current = self.current.lock().await;
        if let Some(connected) = current.as_ref().filter(|connected| !connected.is_closed()) {
            return Ok(Arc::clone(connected));
        }
        let (client, connection) = self.config.connect(NoTls).await.map_err(|e| trouble(&e))?;
        // Ends with the client; what went wrong reaches whoever waits for an answer.
        drop(tokio::spawn(async move { drop(connection.await) }));
        let connected = Arc::new(Connected { client, statements: Mutex::default() });
        *current = Some(Arc::clone(&connected));
        Ok(connected)
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
            if current.as_ref().is_some_and(|connected| Arc::ptr_eq(connected, lost)) {
                *current = None;
            }
        }
        self.connected().await
    }
}

/// A connection and the statements that it has prepared.
#[derive(Debug)]
pub(super) struct Connected {
    client: Client,
    statements: Mutex<HashMap<&'static str, Statement>>,
}

type Answer<T> = Result<T, tokio_postgres::Error>;

impl Connected {
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    pub(super) async fn query(&self, sql: &'static str, values: Values<'_>) -> Answer<Vec<Row>> {
        let statement = self.prepared(sql).await?;
        self.client.query(&statement, values).await
    }

    pub(super) async fn execute(&self, sql: &'static str, values: Values<'_>) -> Answer<u64> {
        let statement = self.prepared(sql).await?;
        self.client.execute(&statement, values).await
    }

    /// Runs statements without values or results, such as `BEGIN`.
    pub(super) async fn run(&self, sql: &str) -> Answer<()> {
        self.client.batch_execute(sql).await
    }

    /// Prepares a statement ahead of its use, so that using it sends it at once and in order.
    pub(super) async fn prepared(&self, sql: &'static str) -> Answer<Statement> {
        let known = self.statements().get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare(sql).await?;
        self.statements().insert(sql, statement.clone());
        Ok(statement)
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
        Some(code) if *code == SqlState::IO_ERROR => ErrorKind::Stopped,
        Some(_) if is_lost(error) || is_passing(error) => ErrorKind::Gone,
        Some(code) => match &code.code()[..2] {
            "22" | "23" | "28" | "3D" => ErrorKind::Invalid,
            "53" => ErrorKind::Gone,
            _ => ErrorKind::Internal,
        },
        None if is_lost(error) || is_connecting(error) => ErrorKind::Gone,
        None => ErrorKind::Internal,
    };
    Error::new(kind, format!("PostgreSQL: {}", described(error)))
}

fn is_connecting(error: &tokio_postgres::Error) -> bool {
    error.to_string().starts_with("error connecting") || error.to_string().contains("timeout")
}

/// The driver's own words leave out the server's.
fn described(error: &tokio_postgres::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
