//! Sessions that go for ever, in PostgreSQL: their rows are deleted. When the space that they took
//! is written over is up to the server (`VACUUM`, its log and its archive).

use std::sync::Arc;

use haft_core::journal::Head;
use haft_core::{ArtifactId, CallId, Digest, SessionId, Timestamp};
use tokio_postgres::Row;

use super::batch::id;
use super::link::{Connected, Link, is_lost, trouble};
use super::sessions::listed_session;
use super::{Postgres, column, given, with_clock};
use crate::erased::{EraseError, ErasedSession, ErasureRequest, keys};
use crate::error::{Error, ErrorKind};
use crate::key::{digest, id_bits, moment, number, unsigned};
use crate::name::{NodeId, Tenant};
use crate::page::Page;
use crate::session::ListedSession;
use crate::work::Moment;

/// Whoever erases next chains to what this transaction records.
const LOCK: &str = "LOCK TABLE erasures IN SHARE ROW EXCLUSIVE MODE";

/// What refers to a session by its id and holds nothing that anyone else refers to.
const REMOVED: [&str; 9] = [
    "DELETE FROM events WHERE session = $1",
    "DELETE FROM snapshots WHERE session = $1",
    "DELETE FROM calls WHERE session = $1",
    "DELETE FROM waits WHERE session = $1",
    "DELETE FROM timers WHERE session = $1",
    "DELETE FROM wakes WHERE session = $1",
    "DELETE FROM deliveries WHERE session = $1",
    "DELETE FROM clients WHERE session = $1",
    // The answers of requests that wrote to it; that they were made and answered stays, so that none
    // is repeated.
    "UPDATE requests SET note = NULL
     WHERE step = '' AND id IN (SELECT id FROM requests WHERE session = $1)",
];

/// Versions whose key is one of these ids, or begins with one of them and a dot; `/` is what follows
/// `.` in ASCII.
const FORGET: &str = "
    WITH meant AS (
      SELECT versions.tenant, space, versions.key, number, digest
      FROM versions JOIN unnest($2::text[]) AS wanted(id) ON versions.tenant = $1
        AND (versions.key COLLATE \"C\" = wanted.id
          OR (versions.key COLLATE \"C\" > wanted.id || '.'
            AND versions.key COLLATE \"C\" < wanted.id || '/'))
      WHERE digest IS NOT NULL FOR UPDATE OF versions)
    UPDATE versions SET digest = NULL FROM meant
    WHERE versions.tenant = meant.tenant AND versions.space = meant.space
      AND versions.key = meant.key AND versions.number = meant.number
    RETURNING meant.digest";

/// Of two that erase the last two references to a blob, the second must see what the first did.
const LOCK_BLOBS: &str = "SELECT 1 FROM blobs WHERE digest = ANY($1) ORDER BY digest FOR UPDATE";

const REMOVE_BLOBS: &str = "
    DELETE FROM blobs WHERE digest = ANY($1)
      AND NOT EXISTS (SELECT 1 FROM versions WHERE versions.digest = blobs.digest)
      AND NOT EXISTS (SELECT 1 FROM artifacts WHERE artifacts.digest = blobs.digest)";

const KEPT: &str = "SELECT number, session, tenant, head_seq, head_hash, author, at, hash
                    FROM erasures WHERE session = $1";

impl Postgres {
    pub(crate) async fn request_erasure(
        &self,
        request: ErasureRequest,
        author: String,
    ) -> Result<(), Error> {
        let sql = "INSERT INTO erasure_requests (session, tenant, author, at)
                   VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
        let (session, at) = (id(request.session.bits()), request.at.ms());
        self.query(sql, &[&session, &request.tenant.as_str(), &author, &at]).await.map(drop)
    }

    pub(crate) async fn erasure_requests(&self, limit: u32) -> Result<Vec<ErasureRequest>, Error> {
        let sql = "SELECT session, tenant, author, at FROM erasure_requests
                   ORDER BY at, session LIMIT $1";
        let rows = self.query(sql, &[&i64::from(limit)]).await?;
        let request = |row: &Row| {
            Ok(ErasureRequest {
                session: SessionId::from_bits(id_bits(column(row, 0)?)?),
                tenant: column::<&str>(row, 1)?.parse().map_err(Error::corrupt)?,
                by: serde_json::from_str(column(row, 2)?).map_err(Error::corrupt)?,
                at: moment(column(row, 3)?),
            })
        };
        rows.iter().map(request).collect()
    }

    /// In a task of its own: a caller that goes away must not leave a transaction half done on
    /// the connection.
    pub(crate) async fn erase_session(
        &self,
        request: ErasureRequest,
        author: String,
        at: Timestamp,
    ) -> Result<ErasedSession, EraseError> {
        let exclusive = Arc::clone(&self.exclusive);
        let task = tokio::spawn(async move {
            let link = exclusive.lock().await;
            erase_session(&link, &request, &author, at).await
        });
        let ended = |_| Error::new(ErrorKind::Internal, "an erasure did not come to its end");
        task.await.map_err(ended)?
    }

    pub(crate) async fn erasures(&self, page: Page<u64>) -> Result<Vec<ErasedSession>, Error> {
        let sql = "SELECT number, session, tenant, head_seq, head_hash, author, at, hash
                   FROM erasures WHERE number > $1 ORDER BY number LIMIT $2";
        let after = page.after.map_or(0, number);
        let rows = self.query(sql, &[&after, &i64::from(page.limit)]).await?;
        rows.iter().map(erased_session).collect()
    }

    pub(crate) async fn erased(&self, session: SessionId) -> Result<Option<ErasedSession>, Error> {
        let rows = self.query(KEPT, &[&id(session.bits())]).await?;
        rows.first().map(erased_session).transpose()
    }

    pub(crate) async fn artifacts_of(&self, session: SessionId) -> Result<Vec<ArtifactId>, Error> {
        let sql = "SELECT id FROM artifacts WHERE session = $1 ORDER BY id";
        let rows = self.query(sql, &[&id(session.bits())]).await?;
        rows.iter().map(|row| Ok(ArtifactId::from_bits(id_bits(column(row, 0)?)?))).collect()
    }

    pub(crate) async fn at_rest_since(
        &self,
        before: Timestamp,
        page: Page<SessionId>,
    ) -> Result<Vec<ListedSession>, Error> {
        let sql = "SELECT id, tenant, status, head_seq, created_at, updated_at, 0::bigint, agent,
                     parent
                   FROM sessions
                   WHERE updated_at < $1 AND status IN ('idle', 'ended') AND parent IS NULL
                     AND ($2::bytea IS NULL OR id > $2)
                     AND NOT EXISTS (SELECT 1 FROM waits WHERE waits.session = sessions.id)
                     AND NOT EXISTS (SELECT 1 FROM timers WHERE timers.session = sessions.id)
                   ORDER BY id LIMIT $3";
        let after = page.after.map(|after| id(after.bits()));
        let rows = self.query(sql, &[&before.ms(), &after, &i64::from(page.limit)]).await?;
        rows.iter().map(listed_session).collect()
    }

    pub(crate) async fn live_nodes(&self, now: Moment) -> Result<Vec<NodeId>, Error> {
        let sql =
            with_clock!("SELECT node FROM nodes, clock WHERE lease_until > now ORDER BY node");
        let rows = self.query(sql, &[&given(now)]).await?;
        let node = |row: &Row| NodeId::new(column(row, 0)?).map_err(Error::corrupt);
        rows.iter().map(node).collect()
    }
}

/// Why an erasure came to nothing.
enum EraseFailure {
    /// The database said so.
    Database(tokio_postgres::Error),
    Refused(EraseError),
}

impl From<tokio_postgres::Error> for EraseFailure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl From<Error> for EraseFailure {
    fn from(error: Error) -> Self {
        Self::Refused(error.into())
    }
}

async fn erase_session(
    link: &Link,
    request: &ErasureRequest,
    author: &str,
    at: Timestamp,
) -> Result<ErasedSession, EraseError> {
    let mut connected = link.connected().await?;
    if connected.run("BEGIN").await.is_err() {
        connected = link.fresh(&connected).await?;
        connected.run("BEGIN").await.map_err(|error| trouble(&error))?;
    }
    match erase_within(&connected, request, author, at).await {
        Ok(kept) => match connected.run("COMMIT").await {
            Ok(()) => Ok(kept),
            Err(error) if is_lost(&error) => {
                let context = "the connection was lost during the commit of an erasure";
                Err(Error::new(ErrorKind::Unknown, context).into())
            }
            Err(error) => Err(trouble(&error).into()),
        },
        Err(failed) => {
            // A connection that is lost has nothing to roll back.
            drop(connected.run("ROLLBACK").await);
            Err(match failed {
                EraseFailure::Database(error) => trouble(&error).into(),
                EraseFailure::Refused(error) => error,
            })
        }
    }
}

async fn erase_within(
    connected: &Connected,
    request: &ErasureRequest,
    author: &str,
    at: Timestamp,
) -> Result<ErasedSession, EraseFailure> {
    let session = id(request.session.bits());
    let sql = "SELECT tenant, head_seq, head_hash, status = 'ended' FROM sessions
               WHERE id = $1 FOR UPDATE";
    let rows = connected.query(sql, &[&session]).await?;
    let Some(row) = rows.first() else {
        connected.execute("DELETE FROM erasure_requests WHERE session = $1", &[&session]).await?;
        let kept = connected.query(KEPT, &[&session]).await?;
        let kept = kept.first().map(erased_session).transpose()?;
        return kept.ok_or(EraseFailure::Refused(EraseError::UnknownSession));
    };
    if !column::<bool>(row, 3)? {
        return Err(EraseFailure::Refused(EraseError::NotEnded));
    }
    let tenant: Tenant = column::<&str>(row, 0)?.parse().map_err(Error::corrupt)?;
    let head = Head { seq: unsigned(column(row, 1)?)?, hash: digest(column(row, 2)?)? };
    remove_content(connected, request.session, &tenant).await?;
    for sql in REMOVED {
        connected.execute(sql, &[&session]).await?;
    }
    connected.execute("DELETE FROM sessions WHERE id = $1", &[&session]).await?;
    connected.execute("DELETE FROM erasure_requests WHERE session = $1", &[&session]).await?;
    record(connected, request, tenant, head, author, at).await
}

/// Removes artifacts, and the content of the versions that belong to the session or its calls.
async fn remove_content(
    connected: &Connected,
    session: SessionId,
    tenant: &Tenant,
) -> Result<(), EraseFailure> {
    let key = id(session.bits());
    let calls = connected.query("SELECT call FROM calls WHERE session = $1", &[&key]).await?;
    let call = |row: &Row| Ok(CallId::from_bits(id_bits(column(row, 0)?)?));
    let calls = calls.iter().map(call).collect::<Result<Vec<_>, Error>>()?;
    let sql = "DELETE FROM artifacts WHERE session = $1 RETURNING digest";
    let mut gone = connected.query(sql, &[&key]).await?;
    gone.extend(connected.query(FORGET, &[&tenant.as_str(), &keys(session, &calls)]).await?);
    let digests = gone.iter().map(|row| column(row, 0)).collect::<Result<Vec<Vec<u8>>, _>>()?;
    if !digests.is_empty() {
        connected.query(LOCK_BLOBS, &[&digests]).await?;
        connected.execute(REMOVE_BLOBS, &[&digests]).await?;
    }
    Ok(())
}

/// Records what is kept of the session, chained to the erasure before it.
async fn record(
    connected: &Connected,
    request: &ErasureRequest,
    tenant: Tenant,
    head: Head,
    author: &str,
    at: Timestamp,
) -> Result<ErasedSession, EraseFailure> {
    connected.run(LOCK).await?;
    let sql = "SELECT number, hash FROM erasures ORDER BY number DESC LIMIT 1";
    let rows = connected.query(sql, &[]).await?;
    let (before, previous) = match rows.first() {
        Some(row) => (unsigned(column(row, 0)?)?, digest(column(row, 1)?)?),
        None => (0, Digest::ZERO),
    };
    let (session, by, hash) = (request.session, request.by.clone(), Digest::ZERO);
    let mut kept = ErasedSession { number: before + 1, session, tenant, head, by, at, hash };
    kept.hash = kept.chained(previous, author);
    let sql = "INSERT INTO erasures
                 (number, session, tenant, head_seq, head_hash, author, at, hash)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    let (head_hash, hash) = (head.hash.as_bytes().to_vec(), kept.hash.as_bytes().to_vec());
    let values: super::Values<'_> = &[
        &number(kept.number),
        &id(session.bits()),
        &kept.tenant.as_str(),
        &number(head.seq),
        &head_hash,
        &author,
        &at.ms(),
        &hash,
    ];
    connected.execute(sql, values).await?;
    Ok(kept)
}

pub(super) fn erased_session(row: &Row) -> Result<ErasedSession, Error> {
    Ok(ErasedSession {
        number: unsigned(column(row, 0)?)?,
        session: SessionId::from_bits(id_bits(column(row, 1)?)?),
        tenant: column::<&str>(row, 2)?.parse().map_err(Error::corrupt)?,
        head: Head { seq: unsigned(column(row, 3)?)?, hash: digest(column(row, 4)?)? },
        by: serde_json::from_str(column(row, 5)?).map_err(Error::corrupt)?,
        at: moment(column(row, 6)?),
        hash: digest(column(row, 7)?)?,
    })
}
