//! Poolers between Haft and PostgreSQL.
//!
//! Haft needs sessions of its own: its statements are prepared, its limits are settings of the
//! session, and it listens. A pooler that gives each transaction another session keeps none of
//! that, and what breaks then does not say why. So it is looked for at the start and refused by
//! name. Behind a pooler that gives each connection a session for as long as it lasts, everything
//! holds.

use tokio_postgres::{Client, SimpleQueryMessage};

use super::address::Address;
use super::link::{described, trouble};
use crate::error::{Error, ErrorKind};

/// What to do about a pooler that does not take the settings in the address.
pub(super) const REFUSED_GREETING: &str = "a connection pooler is between, and does not take the \
     `options` in the address: take them out of the address, or have PgBouncer drop them \
     (`ignore_startup_parameters = options`), Haft makes the settings again by itself";

/// How often two connections are compared. One that is pooled is seen the first time, unless
/// others use the pool at the same moment.
const ROUNDS: usize = 3;

/// Refuses a pooler that gives transactions, not connections, a session of their own.
pub(super) async fn require_own_sessions(address: &Address) -> Result<(), Error> {
    let (first, second) = (connect(address).await?, connect(address).await?);
    for _ in 0..ROUNDS {
        let of_first = process_of(&first, "").await?;
        // Held in a transaction, so that the pool cannot give the same to both by turns.
        let of_second = process_of(&second, "BEGIN; ").await?;
        let ended = second.batch_execute("ROLLBACK").await;
        ended.map_err(|error| trouble(&error))?;
        if of_first == of_second {
            return Err(pooled("two connections were given the same process of the server"));
        }
    }
    Ok(())
}

/// Whether someone between does not take a setting in the greeting, as only poolers do.
pub(super) fn is_refused_greeting(error: &tokio_postgres::Error) -> bool {
    described(error).contains("unsupported startup parameter")
}

async fn connect(address: &Address) -> Result<Client, Error> {
    let (client, connection) = address.connect().await?;
    // Ends with the client; what went wrong reaches whoever waits for an answer.
    drop(tokio::spawn(async move { drop(connection.await) }));
    Ok(client)
}

async fn process_of(client: &Client, before: &str) -> Result<Option<String>, Error> {
    let sql = format!("{before}SELECT pg_backend_pid()");
    let answer = tokio::time::timeout(super::PROBE_MAX, client.simple_query(&sql)).await;
    let silent = || {
        let context = "PostgreSQL: a second connection was taken and not answered; a pooler may \
                       have too few connections for Haft, which needs about a dozen";
        Error::new(ErrorKind::Gone, context)
    };
    let rows = answer.map_err(|_| silent())?.map_err(|error| {
        match described(&error).contains("statement pooling mode") {
            true => pooled("it allows no transactions"),
            false => trouble(&error),
        }
    })?;
    Ok(rows.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    }))
}

fn pooled(seen: &str) -> Error {
    let context = format!(
        "a connection pooler in transaction or statement mode (such as PgBouncer with \
         `pool_mode = transaction`) is between Haft and PostgreSQL: {seen}. Haft needs sessions of \
         its own: set `pool_mode = session` for its database, or connect to PostgreSQL directly"
    );
    Error::new(ErrorKind::Invalid, context)
}
