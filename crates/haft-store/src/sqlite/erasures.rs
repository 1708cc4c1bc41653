//! Sessions that go for ever, in SQLite.
//!
//! A row of the log is emptied and stays: SQLite fills the gap of a row that goes with its
//! neighbours, and may leave a copy of them where they were, which nothing could erase. Rows that
//! hold no content are removed.

use std::path::PathBuf;

use haft_core::journal::Head;
use haft_core::session::Event;
use haft_core::{ArtifactId, CallId, Digest, SessionId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::connection::database_error;
use super::content::{blank_blobs, put_blob};
use super::heads::Heads;
use super::journal::Log;
use super::sessions::listed_session;
use super::writer::Hint;
use super::{Fault, Sqlite, connection, settled, time};
use crate::erased::{EraseError, ErasedSession, ErasureRequest, keys};
use crate::error::{Error, ErrorKind};
use crate::key::{digest, id_bits, id_bytes, moment, number, unsigned};
use crate::name::{NodeId, Tenant};
use crate::page::Page;
use crate::session::ListedSession;
use crate::work::Moment;

impl Sqlite {
    pub(crate) async fn request_erasure(
        &self,
        request: ErasureRequest,
        author: String,
    ) -> Result<(), Error> {
        self.writer
            .write(Hint::Nothing, move |connection| {
                let sql = "INSERT INTO erasure_requests (session, tenant, author, at)
                           VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
                let ErasureRequest { session, tenant, at, .. } = &request;
                let values = params![id_bytes(session.bits()), tenant.as_str(), author, at.ms()];
                connection.prepare_cached(sql)?.execute(values)?;
                Ok(Ok(()))
            })
            .await
    }

    pub(crate) async fn erasure_requests(&self, limit: u32) -> Result<Vec<ErasureRequest>, Error> {
        self.read(move |connection| {
            let sql = "SELECT session, tenant, author, at FROM erasure_requests
                       ORDER BY at, session LIMIT ?1";
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query([limit])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let (tenant, by): (String, String) = (row.get(1)?, row.get(2)?);
                found.push(ErasureRequest {
                    session: SessionId::from_bits(bits(row, 0)?),
                    tenant: tenant.parse().map_err(Error::corrupt)?,
                    by: serde_json::from_str(&by).map_err(Error::corrupt)?,
                    at: moment(row.get(3)?),
                });
            }
            Ok(found)
        })
        .await
    }

    pub(crate) async fn erase_session(
        &self,
        request: ErasureRequest,
        author: String,
        at: Timestamp,
    ) -> Result<ErasedSession, EraseError> {
        let heads = self.heads.clone();
        self.writer
            .write(Hint::Erased, move |connection| {
                settled(erase_session(connection, &heads, &request, &author, at))
                    .map(|erased| erased.and_then(|erased| erased))
            })
            .await
    }

    pub(crate) async fn erasures(&self, page: Page<u64>) -> Result<Vec<ErasedSession>, Error> {
        self.read(move |connection| {
            erased_sessions(connection, page.after.unwrap_or(0), page.limit)
        })
        .await
    }

    pub(crate) async fn erased(&self, session: SessionId) -> Result<Option<ErasedSession>, Error> {
        self.read(move |connection| erased(connection, session)).await
    }

    pub(crate) async fn artifacts_of(&self, session: SessionId) -> Result<Vec<ArtifactId>, Error> {
        self.read(move |connection| {
            let sql = "SELECT id FROM artifacts WHERE session = ?1 ORDER BY id";
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query([id_bytes(session.bits())])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push(ArtifactId::from_bits(bits(row, 0)?));
            }
            Ok(found)
        })
        .await
    }

    pub(crate) async fn at_rest_since(
        &self,
        before: Timestamp,
        page: Page<SessionId>,
    ) -> Result<Vec<ListedSession>, Error> {
        self.read(move |connection| {
            let sql =
                "SELECT id, tenant, status, head_seq, created_at, updated_at, 0, agent, parent
                       FROM sessions
                       WHERE updated_at < ?1 AND status IN ('idle', 'ended') AND parent IS NULL
                         AND (?2 IS NULL OR id > ?2)
                         AND NOT EXISTS (SELECT 1 FROM calls
                           WHERE calls.session = sessions.key AND expires_at IS NOT NULL)
                         AND key NOT IN (SELECT session FROM calls WHERE retry_at IS NOT NULL)
                       ORDER BY id LIMIT ?3";
            let after = page.after.map(|after| id_bytes(after.bits()));
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query(params![before.ms(), after, page.limit])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push(listed_session(row)?);
            }
            Ok(found)
        })
        .await
    }

    pub(crate) async fn live_nodes(&self, now: Moment) -> Result<Vec<NodeId>, Error> {
        let now = time(now);
        self.read(move |connection| {
            let sql = "SELECT node FROM nodes WHERE lease_until > ?1 ORDER BY node";
            let mut statement = connection.prepare_cached(sql)?;
            let names = statement.query_map([now.ms()], |row| row.get::<_, String>(0))?;
            let names = names.collect::<rusqlite::Result<Vec<_>>>()?;
            let node = |name: &String| NodeId::new(name).map_err(Error::corrupt);
            Ok(names.iter().map(node).collect::<Result<_, _>>()?)
        })
        .await
    }

    /// Copies what is committed at one moment, on a connection of its own: nobody waits for it.
    pub(crate) async fn copy_to(&self, path: PathBuf) -> Result<(), Error> {
        let database = self.claim.database.clone();
        let copied = tokio::task::spawn_blocking(move || {
            let path = path.to_str().map(str::to_owned).ok_or_else(|| {
                Error::new(ErrorKind::Invalid, "the path of a copy must be valid UTF-8")
            })?;
            let connection = connection::reader(&database)?;
            connection
                .execute_batch("PRAGMA query_only = OFF")
                .and_then(|()| connection.execute("VACUUM INTO ?1", [path]))
                .map(drop)
                .map_err(|error| database_error(&error).during("copying the database"))
        });
        let broken = |_| Error::new(ErrorKind::Internal, "a copy did not come to its end");
        copied.await.map_err(broken)?
    }
}

/// A session's row, as far as erasing needs it.
struct SessionToErase {
    log: Log,
    tenant: Tenant,
    head: Head,
    is_ended: bool,
    snapshot: Option<i64>,
}

fn erase_session(
    connection: &Connection,
    heads: &Heads,
    request: &ErasureRequest,
    author: &str,
    at: Timestamp,
) -> Result<Result<ErasedSession, EraseError>, Fault> {
    let session = request.session;
    let Some(meant) = meant(connection, session)? else {
        let earlier = erased(connection, session)?;
        forget_request(connection, session)?;
        return Ok(earlier.ok_or(EraseError::UnknownSession));
    };
    if !meant.is_ended {
        return Ok(Err(EraseError::NotEnded));
    }
    // An error of ours undoes nothing, so that all that may be unreadable is read before the first
    // write.
    let last = last_erasure(connection)?;
    heads.forget(session);
    let calls = erase_log(connection, &meant)?;
    let digests = erase_content(connection, session, meant.tenant.as_str(), &calls)?;
    blank_blobs(connection, &digests)?;
    remove_rows(connection, session, meant.log.key, &calls)?;
    let kept = record(connection, request, &meant, last, (author, at))?;
    forget_request(connection, session)?;
    Ok(Ok(kept))
}

fn meant(connection: &Connection, session: SessionId) -> Result<Option<SessionToErase>, Fault> {
    let sql = "SELECT key, tail, tenant, head_seq, head_hash, status = 'ended', snapshot
               FROM sessions WHERE id = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([id_bytes(session.bits())])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (tenant, hash): (String, Vec<u8>) = (row.get(2)?, row.get(4)?);
    Ok(Some(SessionToErase {
        log: Log { session, key: row.get(0)?, tail: row.get(1)? },
        tenant: tenant.parse().map_err(Error::corrupt)?,
        head: Head { seq: unsigned(row.get(3)?)?, hash: digest(&hash)? },
        is_ended: row.get(5)?,
        snapshot: row.get(6)?,
    }))
}

/// Empties the log and the snapshot; returns the calls of the session.
fn erase_log(connection: &Connection, meant: &SessionToErase) -> Result<Vec<CallId>, Fault> {
    let mut calls = Vec::new();
    let is_whole = meant.log.erase(connection, |entry| {
        // What cannot be read any more is erased all the same.
        let Ok(event) = entry.event() else { return };
        calls.extend(event.call());
        if let Event::WakeQueued { wake } = event {
            calls.push(CallId::from_bits(wake.id.bits()));
        }
    })?;
    if !is_whole {
        calls.extend(calls_with_rows(connection, meant.log.key)?);
    }
    calls.sort_unstable();
    calls.dedup();
    if let Some(place) = meant.snapshot {
        empty_snapshot(connection, place)?;
    }
    Ok(calls)
}

/// Returns the calls of a session whose log does not tell of all of them. It looks at every call
/// that there is.
fn calls_with_rows(connection: &Connection, key: i64) -> rusqlite::Result<Vec<CallId>> {
    let mut statement = connection.prepare_cached("SELECT call FROM calls WHERE session = ?1")?;
    let calls = statement.query_map([key], |row| row.get::<_, Vec<u8>>(0))?;
    let calls = calls.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(calls.iter().filter_map(|call| id_bits(call).ok()).map(CallId::from_bits).collect())
}

/// Takes the content out of a snapshot that nothing refers to any more.
pub(super) fn empty_snapshot(connection: &Connection, place: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE snapshots SET session = 0, seq = 0, body = '' WHERE place = ?1";
    connection.prepare_cached(sql)?.execute([place]).map(drop)
}

/// Takes the content from artifacts and versions; returns the hashes of what they referred to.
fn erase_content(
    connection: &Connection,
    session: SessionId,
    tenant: &str,
    calls: &[CallId],
) -> Result<Vec<Vec<u8>>, Fault> {
    let id = id_bytes(session.bits());
    let read = |sql: &str, values: &[&dyn rusqlite::ToSql]| {
        let mut statement = connection.prepare_cached(sql)?;
        let digests = statement.query_map(values, |row| row.get(0))?;
        digests.collect::<rusqlite::Result<Vec<Vec<u8>>>>()
    };
    let mut digests = read("SELECT digest FROM artifacts WHERE session = ?1", &[&id])?;
    if !digests.is_empty() {
        let nothing = put_blob(connection, b"")?;
        let sql = "UPDATE artifacts SET tenant = '', session = NULL, digest = ?2, bytes = 0,
                     media_type = '', title = NULL WHERE session = ?1";
        connection.prepare_cached(sql)?.execute(params![id, nothing.as_bytes()])?;
    }
    for key in keys(session, calls) {
        // `call.question` belongs to the call, and `/` is what follows `.` in ASCII.
        let (first, last) = (format!("{key}."), format!("{key}/"));
        let values: [&dyn rusqlite::ToSql; 4] = [&tenant, &key, &first, &last];
        let meant = "tenant = ?1 AND (key = ?2 OR (key > ?3 AND key < ?4)) AND digest IS NOT NULL";
        digests.extend(read(&format!("SELECT digest FROM versions WHERE {meant}"), &values)?);
        let sql = format!("UPDATE versions SET digest = NULL WHERE {meant}");
        connection.prepare_cached(&sql)?.execute(&values[..])?;
    }
    Ok(digests)
}

fn remove_rows(
    connection: &Connection,
    session: SessionId,
    key: i64,
    calls: &[CallId],
) -> rusqlite::Result<()> {
    let id = id_bytes(session.bits());
    let sql = "DELETE FROM calls WHERE call = ?1 AND session = ?2";
    for call in calls {
        connection.prepare_cached(sql)?.execute(params![id_bytes(call.bits()), key])?;
    }
    for sql in ["DELETE FROM wakes WHERE session = ?1", "DELETE FROM sessions WHERE key = ?1"] {
        connection.prepare_cached(sql)?.execute([key])?;
    }
    for sql in [
        "DELETE FROM deliveries WHERE session = ?1",
        "DELETE FROM clients WHERE session = ?1",
        // The answers of requests that wrote to it; that they were made and answered stays, so that
        // none is repeated.
        "UPDATE requests SET note = NULL WHERE step = ''
               AND id IN (SELECT id FROM requests WHERE session = ?1)",
    ] {
        connection.prepare_cached(sql)?.execute([id])?;
    }
    Ok(())
}

/// Returns the number and the hash of the last erasure.
fn last_erasure(connection: &Connection) -> Result<(u64, Digest), Fault> {
    let sql = "SELECT number, hash FROM erasures ORDER BY number DESC LIMIT 1";
    let last: Option<(i64, Vec<u8>)> = connection
        .prepare_cached(sql)?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match last {
        Some((number, hash)) => Ok((unsigned(number)?, digest(&hash)?)),
        None => Ok((0, Digest::ZERO)),
    }
}

/// Records what is kept of the session, chained to the erasure before it.
fn record(
    connection: &Connection,
    request: &ErasureRequest,
    meant: &SessionToErase,
    (before, previous): (u64, Digest),
    (author, at): (&str, Timestamp),
) -> rusqlite::Result<ErasedSession> {
    let (session, tenant, by) = (request.session, meant.tenant.clone(), request.by.clone());
    let (head, hash) = (meant.head, Digest::ZERO);
    let mut kept = ErasedSession { number: before + 1, session, tenant, head, by, at, hash };
    kept.hash = kept.chained(previous, author);
    let sql = "INSERT INTO erasures
                 (number, session, tenant, head_seq, head_hash, author, at, hash)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    connection.prepare_cached(sql)?.execute(params![
        number(kept.number),
        id_bytes(session.bits()),
        kept.tenant.as_str(),
        number(kept.head.seq),
        kept.head.hash.as_bytes(),
        author,
        at.ms(),
        kept.hash.as_bytes(),
    ])?;
    Ok(kept)
}

fn forget_request(connection: &Connection, session: SessionId) -> rusqlite::Result<()> {
    let sql = "DELETE FROM erasure_requests WHERE session = ?1";
    connection.prepare_cached(sql)?.execute([id_bytes(session.bits())]).map(drop)
}

fn erased(connection: &Connection, session: SessionId) -> Result<Option<ErasedSession>, Fault> {
    let sql = "SELECT number, session, tenant, head_seq, head_hash, author, at, hash
               FROM erasures WHERE session = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([id_bytes(session.bits())])?;
    rows.next()?.map(erased_session).transpose()
}

/// Returns the erasures after a number, in order.
pub(super) fn erased_sessions(
    connection: &Connection,
    after: u64,
    limit: u32,
) -> Result<Vec<ErasedSession>, Fault> {
    let sql = "SELECT number, session, tenant, head_seq, head_hash, author, at, hash
               FROM erasures WHERE number > ?1 ORDER BY number LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![number(after), limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(erased_session(row)?);
    }
    Ok(found)
}

fn erased_session(row: &Row<'_>) -> Result<ErasedSession, Fault> {
    let (tenant, by): (String, String) = (row.get(2)?, row.get(5)?);
    let (head_hash, hash): (Vec<u8>, Vec<u8>) = (row.get(4)?, row.get(7)?);
    Ok(ErasedSession {
        number: unsigned(row.get(0)?)?,
        session: SessionId::from_bits(bits(row, 1)?),
        tenant: tenant.parse().map_err(Error::corrupt)?,
        head: Head { seq: unsigned(row.get(3)?)?, hash: digest(&head_hash)? },
        by: serde_json::from_str(&by).map_err(Error::corrupt)?,
        at: moment(row.get(6)?),
        hash: digest(&hash)?,
    })
}

fn bits(row: &Row<'_>, at: usize) -> Result<u128, Fault> {
    Ok(id_bits(row.get_ref(at)?.as_blob().map_err(Error::corrupt)?)?)
}
