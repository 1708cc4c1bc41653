//! The store for many nodes: any number of processes over one PostgreSQL database.
//!
//! Two connections write, with shared transactions; a few more carry everything else, several
//! statements at a time, for none of them needs a transaction of its own. What is true is settled
//! in the database alone: no node keeps anything that another could have changed.

mod address;
mod audit;
mod authority;
mod batch;
mod clients;
mod content;
mod erase;
mod erasures;
mod examine;
mod hints;
mod link;
mod notices;
mod payload;
#[cfg(any(test, not(feature = "tls")))]
mod plain;
mod pooler;
mod probe;
mod repair;
mod requests;
mod schema;
mod sessions;
mod text;
#[cfg(feature = "tls")]
mod tls;
mod work;
mod writer;

pub(crate) use audit::audit;
pub(crate) use examine::examine;
pub(crate) use repair::repair;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use haft_core::SessionId;
use haft_core::journal::Head;
use tokio::sync::watch;
use tokio_postgres::Row;

use self::address::{Address, COMMITS};
use self::hints::Hints;
use self::link::{Link, Values};
use self::writer::Writer;
use crate::append::{AppendError, Prepared};
use crate::error::Error;
use crate::shared::Shared;
use crate::work::Moment;

/// Measured: two writers that share transactions use the server's commit path to the full.
const N_WRITERS: usize = 2;

/// Statements of several callers share a connection, so that a few carry many.
const N_LINKS: usize = 4;

/// A heartbeat that takes longer is sent again: the lease of the node runs out meanwhile.
const HEARTBEAT_MAX: Duration = Duration::from_secs(4);

/// How long it is waited for a small write to be durable: much longer than one takes.
const PROBE_MAX: Duration = Duration::from_secs(3);

/// Milliseconds since 1970 by the database's clock, unless `$1` gives a moment.
macro_rules! with_clock {
    ($sql:literal) => {
        concat!(
            "WITH clock AS (SELECT coalesce($1::bigint, ",
            "(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now) ",
            $sql
        )
    };
}
use with_clock;

/// A connected PostgreSQL store.
#[derive(Debug)]
pub(crate) struct Postgres {
    writers: Vec<Writer>,
    links: Vec<Link>,
    turn: AtomicUsize,
    /// For heartbeats, which wait behind nobody.
    heart: Link,
    /// For the few requests that need a transaction of their own.
    exclusive: Arc<tokio::sync::Mutex<Link>>,
    /// For looking whether writes are durable, which may hang.
    probe: Link,
    hints: Hints,
}

impl Postgres {
    pub(crate) async fn connect(url: &str, shared: &Shared) -> Result<Self, Error> {
        let address = Address::parse(url)?;
        pooler::require_own_sessions(&address).await?;
        let migrating = Link::new(&address.for_migrations());
        schema::migrate(&*migrating.connected().await?).await?;
        let hints = Hints::start(&address, &shared.watches);
        let writer = |_| Writer::start(&address, hints.sender(), shared.clone());
        let writers = (0..N_WRITERS).map(writer).collect();
        let links = (0..N_LINKS).map(|_| Link::new(&address)).collect();
        let exclusive = Link::new(&address.with_settings(COMMITS));
        let exclusive = Arc::new(tokio::sync::Mutex::new(exclusive));
        let probe = Link::new(&address.answering_within(PROBE_MAX));
        let heart = Link::new(&address.answering_within(HEARTBEAT_MAX));
        let turn = AtomicUsize::new(0);
        Ok(Self { writers, links, turn, heart, exclusive, probe, hints })
    }

    pub(crate) async fn append(&self, prepared: Prepared) -> Result<Head, AppendError> {
        // A session always goes to the same writer, so that two never wait for one row.
        let writer = prepared.session.bits() % self.writers.len() as u128;
        self.writers[writer as usize].append(prepared).await
    }

    pub(crate) fn hints(&self) -> watch::Receiver<u64> {
        self.hints.subscribe()
    }

    /// Has the other nodes told that something which belongs to a session has changed.
    pub(crate) fn touched(&self, session: SessionId) {
        self.hints.sender().touched(session);
    }

    /// Runs a statement that may be repeated on whichever connection is next.
    async fn query(&self, sql: &'static str, values: Values<'_>) -> Result<Vec<Row>, Error> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        self.links[turn % self.links.len()].query(sql, values).await
    }
}

/// The moment as the statements of [`with_clock`] take it.
const fn given(moment: Moment) -> Option<i64> {
    match moment {
        Moment::At(at) => Some(at.ms()),
        Moment::Clock => None,
    }
}

/// Reads a column, whose type is wrong only if someone changed the schema.
fn column<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, at: usize) -> Result<T, Error> {
    row.try_get(at).map_err(Error::corrupt)
}
