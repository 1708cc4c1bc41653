//! Sessions in SQLite: reading, owning, listing.

use std::ops::RangeInclusive;

use haft_core::journal::{Entry, Head};
use haft_core::{CallId, Millis, SessionId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::clients::clients_left;
use super::journal::Log;
use super::work::finish_wake;
use super::writer::Hint;
use super::{Fault, Sqlite, time};
use crate::error::Error;
use crate::key::{digest, id_bits, id_bytes, moment, number, small, unsigned};
use crate::name::{NodeId, Tenant};
use crate::page::Page;
use crate::rows::{CallStage, SessionStatus, actor, from_word};
use crate::session::{
    AcquireError, DEAD_REMEMBERED_MS, FoundCall, Lease, ListedSession, RawSession, RawSnapshot,
    SessionFilter, StoredCall,
};
use crate::store::Whole;
use crate::work::{Moment, Wake};

impl Sqlite {
    pub(crate) async fn read_session(
        &self,
        session: SessionId,
        whole: Whole,
    ) -> Result<Option<RawSession>, Error> {
        self.read(move |connection| {
            // One transaction, so that row, snapshot and entries belong together.
            let transaction = connection.unchecked_transaction()?;
            let raw = read_session(&transaction, session, whole)?;
            transaction.commit()?;
            Ok(raw)
        })
        .await
    }

    pub(crate) async fn tenant(&self, session: SessionId) -> Result<Option<Tenant>, Error> {
        self.read(move |connection| {
            let sql = "SELECT tenant FROM sessions WHERE id = ?1";
            let id = id_bytes(session.bits());
            let found: Option<String> =
                connection.prepare_cached(sql)?.query_row([id], |row| row.get(0)).optional()?;
            Ok(found.map(|tenant| tenant.parse().map_err(Error::corrupt)).transpose()?)
        })
        .await
    }

    pub(crate) async fn entries(
        &self,
        session: SessionId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<Entry>, Error> {
        self.read(move |connection| match Log::find(connection, session)? {
            Some(log) => log.some_after(connection, after, limit as usize),
            None => Ok(Vec::new()),
        })
        .await
    }

    pub(crate) async fn entries_at(
        &self,
        places: Vec<(SessionId, u64)>,
    ) -> Result<Vec<Entry>, Error> {
        self.read(move |connection| {
            let mut found = Vec::with_capacity(places.len());
            for (session, seq) in places {
                let Some(log) = Log::find(connection, session)? else { continue };
                let after = seq.saturating_sub(1);
                let entries = log.some_after(connection, after, 1)?;
                found.extend(entries.into_iter().filter(|entry| entry.seq == seq));
            }
            Ok(found)
        })
        .await
    }

    pub(crate) async fn head(&self, session: SessionId) -> Result<Option<Head>, Error> {
        self.read(move |connection| {
            let sql = "SELECT head_seq, head_hash FROM sessions WHERE id = ?1";
            let id = id_bytes(session.bits());
            let row = connection
                .prepare_cached(sql)?
                .query_row([id], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)));
            let Some((seq, hash)) = row.optional()? else { return Ok(None) };
            Ok(Some(Head { seq: unsigned(seq)?, hash: digest(&hash)? }))
        })
        .await
    }

    pub(crate) async fn heartbeat(
        &self,
        node: NodeId,
        now: Moment,
        ttl: Millis,
    ) -> Result<Timestamp, Error> {
        let now = time(now);
        let (until, long_ago) = (now + ttl, now.ms() - DEAD_REMEMBERED_MS);
        self.writer
            .write(Hint::Nothing, move |connection| {
                let sql = "DELETE FROM nodes WHERE lease_until < ?1 AND node <> ?2
                             AND NOT EXISTS (SELECT 1 FROM sessions WHERE owner = nodes.node)
                             AND NOT EXISTS (SELECT 1 FROM clients
                               WHERE clients.node = nodes.node)";
                connection.prepare_cached(sql)?.execute(params![long_ago, node.as_str()])?;
                let sql = "INSERT INTO nodes (node, lease_until) VALUES (?1, ?2)
                           ON CONFLICT (node) DO UPDATE
                           SET lease_until = excluded.lease_until, clients_left = 0";
                connection.prepare_cached(sql)?.execute(params![node.as_str(), until.ms()])?;
                Ok(Ok(until))
            })
            .await
    }

    pub(crate) async fn acquire(
        &self,
        session: SessionId,
        node: NodeId,
        now: Moment,
    ) -> Result<Lease, AcquireError> {
        let (now, heads) = (time(now), self.heads.clone());
        self.writer
            .write(Hint::Nothing, move |connection| {
                // Its epoch moves on.
                heads.forget(session);
                acquire(connection, session, &node, now)
            })
            .await
    }

    pub(crate) async fn release(&self, lease: Lease, wake: Option<Wake>) -> Result<(), Error> {
        self.writer
            .write(Hint::Nothing, move |connection| {
                if let Some(wake) = wake {
                    finish_wake(connection, wake)?;
                }
                let sql = "UPDATE sessions SET owner = NULL
                           WHERE id = ?1 AND owner = ?2 AND epoch = ?3";
                let session = id_bytes(lease.session.bits());
                let values = params![session, lease.node.as_str(), number(lease.epoch)];
                connection.prepare_cached(sql)?.execute(values)?;
                Ok(Ok(()))
            })
            .await
    }

    pub(crate) async fn owned_or_orphaned(
        &self,
        node: NodeId,
        now: Moment,
    ) -> Result<Vec<SessionId>, Error> {
        let now = time(now);
        self.read(move |connection| {
            let sql =
                "SELECT id FROM sessions WHERE owner IS NOT NULL AND (owner = ?1 OR NOT EXISTS (
                         SELECT 1 FROM nodes WHERE node = owner AND lease_until > ?2))";
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query(params![node.as_str(), now.ms()])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let id = row.get_ref(0)?.as_blob().map_err(Error::corrupt)?;
                found.push(SessionId::from_bits(id_bits(id)?));
            }
            Ok(found)
        })
        .await
    }

    pub(crate) async fn retire(&self, node: NodeId) -> Result<(), Error> {
        self.writer
            .write(Hint::Look, move |connection| {
                let node = node.as_str();
                // Whatever ran in them is for the next owner to recover.
                let sql = "INSERT INTO wakes (session, seq)
                           SELECT key, head_seq FROM sessions WHERE owner = ?1
                           ON CONFLICT (session) DO UPDATE
                           SET seq = max(seq, excluded.seq), claimed_until = 0";
                connection.execute(sql, [node])?;
                connection.execute("UPDATE sessions SET owner = NULL WHERE owner = ?1", [node])?;
                clients_left(connection, node, time(Moment::Clock).ms())?;
                connection.execute("DELETE FROM nodes WHERE node = ?1", [node])?;
                Ok(Ok(()))
            })
            .await
    }

    pub(crate) async fn call(
        &self,
        session: SessionId,
        call: CallId,
    ) -> Result<Option<StoredCall>, Error> {
        self.read(move |connection| {
            let sql = "SELECT tool, stage, class, decided, calls.updated_at
                       FROM calls JOIN sessions ON sessions.key = calls.session
                       WHERE call = ?2 AND id = ?1";
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query([id_bytes(session.bits()), id_bytes(call.bits())])?;
            rows.next()?.map(stored_call).transpose()
        })
        .await
    }

    pub(crate) async fn calls_between(
        &self,
        tenant: Tenant,
        ids: RangeInclusive<CallId>,
        limit: u32,
    ) -> Result<Vec<FoundCall>, Error> {
        self.read(move |connection| {
            let sql = "SELECT tool, stage, class, decided, calls.updated_at, id, call
                       FROM calls JOIN sessions ON sessions.key = calls.session
                       WHERE call BETWEEN ?1 AND ?2 AND sessions.tenant = ?3
                       ORDER BY call DESC LIMIT ?4";
            let mut statement = connection.prepare_cached(sql)?;
            let (first, last) = (id_bytes(ids.start().bits()), id_bytes(ids.end().bits()));
            let mut rows = statement.query((first, last, tenant.as_str(), limit))?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let id = |at| -> Result<u128, Fault> {
                    Ok(id_bits(row.get_ref(at)?.as_blob().map_err(Error::corrupt)?)?)
                };
                let (session, call) = (SessionId::from_bits(id(5)?), CallId::from_bits(id(6)?));
                found.push(FoundCall { session, call, known: stored_call(row)? });
            }
            Ok(found)
        })
        .await
    }

    pub(crate) async fn sessions(
        &self,
        filter: SessionFilter,
        page: Page<SessionId>,
    ) -> Result<Vec<ListedSession>, Error> {
        self.read(move |connection| {
            // An index is only used for what is surely wanted.
            let agent = if filter.agent.is_some() { "agent = ?5" } else { "?5 IS NULL" };
            let parent = if filter.parent.is_some() { "parent = ?6" } else { "?6 IS NULL" };
            let opener = if filter.opened_by.is_some() { "opened_by = ?7" } else { "?7 IS NULL" };
            let sql = format!(
                "SELECT id, tenant, status, head_seq, created_at, updated_at,
                   (SELECT count(*) FROM calls
                    WHERE calls.session = sessions.key AND expires_at IS NOT NULL), agent, parent
                 FROM sessions
                 WHERE (?1 IS NULL OR tenant = ?1) AND (?2 IS NULL OR status = ?2)
                   AND (?3 IS NULL OR id < ?3) AND {agent} AND {parent} AND {opener}
                 ORDER BY id DESC LIMIT ?4"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query(params![
                filter.tenant.as_ref().map(Tenant::as_str),
                filter.status.map(SessionStatus::as_str),
                page.after.map(|after| id_bytes(after.bits())),
                page.limit,
                filter.agent.as_deref(),
                filter.parent.map(|parent| id_bytes(parent.bits())),
                filter.opened_by.as_ref().map(actor),
            ])?;
            let mut listed = Vec::new();
            while let Some(row) = rows.next()? {
                listed.push(listed_session(row)?);
            }
            Ok(listed)
        })
        .await
    }
}

fn read_session(
    connection: &Connection,
    session: SessionId,
    whole: Whole,
) -> Result<Option<RawSession>, Fault> {
    let id = id_bytes(session.bits());
    let sql = "SELECT tenant, epoch, owner, head_seq, key, tail, created_at, updated_at
               FROM sessions WHERE id = ?1";
    let row = connection.prepare_cached(sql)?.query_row([id], |row| {
        let (tenant, owner): (String, Option<String>) = (row.get(0)?, row.get(2)?);
        let log = Log { session, key: row.get(4)?, tail: row.get(5)? };
        let times: (i64, i64) = (row.get(6)?, row.get(7)?);
        Ok((tenant, row.get::<_, i64>(1)?, owner, row.get::<_, i64>(3)?, log, times))
    });
    let Some((tenant, epoch, owner, head_seq, log, times)) = row.optional()? else {
        return Ok(None);
    };
    let snapshot = match whole {
        Whole::FromSnapshot => snapshot(connection, log.key)?,
        Whole::Log => None,
    };
    // The snapshot's own entry is read too: its hash is what the next one is chained to.
    let after = snapshot.as_ref().map_or(0, |snapshot| snapshot.seq.saturating_sub(1));
    Ok(Some(RawSession {
        tenant: tenant.parse().map_err(Error::corrupt)?,
        epoch: unsigned(epoch)?,
        head_seq: unsigned(head_seq)?,
        created_at: moment(times.0),
        updated_at: moment(times.1),
        owner: owner.map(|owner| owner.parse()).transpose().map_err(Error::corrupt)?,
        entries: log.after(connection, after)?,
        snapshot,
    }))
}

fn snapshot(connection: &Connection, key: i64) -> Result<Option<RawSnapshot>, Fault> {
    let sql = "SELECT seq, format, body FROM snapshots WHERE session = ?1";
    let row = connection.prepare_cached(sql)?.query_row([key], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?))
    });
    let Some((seq, format, body)) = row.optional()? else { return Ok(None) };
    Ok(Some(RawSnapshot { seq: unsigned(seq)?, format: small(format)?, body }))
}

/// The takeover is one update of the session's row, which every append of an owner checks.
fn acquire(
    connection: &Connection,
    session: SessionId,
    node: &NodeId,
    now: Timestamp,
) -> rusqlite::Result<Result<Lease, AcquireError>> {
    let id = id_bytes(session.bits());
    let taken: Option<(i64, i64, Vec<u8>)> = connection
        .prepare_cached(
            "UPDATE sessions SET owner = ?2, epoch = epoch + 1
             WHERE id = ?1 AND (owner IS NULL OR owner = ?2 OR NOT EXISTS (
               SELECT 1 FROM nodes WHERE node = owner AND lease_until > ?3))
             RETURNING epoch, head_seq, head_hash",
        )?
        .query_row(params![id, node.as_str(), now.ms()], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()?;
    if let Some((epoch, seq, hash)) = taken {
        let node = node.clone();
        let lease = || {
            let head = Head { seq: unsigned(seq)?, hash: digest(&hash)? };
            Ok(Lease { session, node, epoch: unsigned(epoch)?, head })
        };
        return Ok(lease().map_err(AcquireError::Store));
    }
    let owner: Option<Option<String>> = connection
        .prepare_cached("SELECT owner FROM sessions WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()?;
    let Some(owner) = owner.flatten() else { return Ok(Err(AcquireError::UnknownSession)) };
    let owner = NodeId::new(&owner).map_err(|error| AcquireError::from(Error::corrupt(error)));
    Ok(owner.and_then(|owner| Err(AcquireError::Held { owner })))
}

fn stored_call(row: &Row<'_>) -> Result<StoredCall, Fault> {
    let unknown = |what: &str| Error::corrupt(format!("a call's {what} is not a known word"));
    let (stage, class): (String, Option<String>) = (row.get(1)?, row.get(2)?);
    let decided: Option<String> = row.get(3)?;
    let class = class.map(|class| from_word(&class).ok_or_else(|| unknown("class")));
    let decided = decided.map(|decided| serde_json::from_str(&decided).map_err(Error::corrupt));
    Ok(StoredCall {
        tool: row.get(0)?,
        stage: CallStage::parse(&stage).ok_or_else(|| unknown("stage"))?,
        class: class.transpose()?,
        decided: decided.transpose()?,
        updated_at: moment(row.get(4)?),
    })
}

fn listed_session(row: &Row<'_>) -> Result<ListedSession, Fault> {
    let (tenant, status): (String, String) = (row.get(1)?, row.get(2)?);
    let id = row.get_ref(0)?.as_blob().map_err(Error::corrupt)?;
    let unknown = || Error::corrupt("a session's status is not a known word");
    let (agent, parent): (Option<String>, Option<Vec<u8>>) = (row.get(7)?, row.get(8)?);
    Ok(ListedSession {
        agent,
        parent: parent.map(|parent| id_bits(&parent).map(SessionId::from_bits)).transpose()?,
        session: SessionId::from_bits(id_bits(id)?),
        tenant: tenant.parse().map_err(Error::corrupt)?,
        status: SessionStatus::parse(&status).ok_or_else(unknown)?,
        head_seq: unsigned(row.get(3)?)?,
        created_at: moment(row.get(4)?),
        updated_at: moment(row.get(5)?),
        n_waiting: unsigned(row.get(6)?)?,
    })
}
