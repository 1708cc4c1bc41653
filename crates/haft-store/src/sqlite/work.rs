//! Work that waits, in SQLite.

use haft_core::{CallId, Millis, SessionId, Timestamp};
use rusqlite::{Connection, Row, params};

use super::writer::Hint;
use super::{Fault, Sqlite, append, settled, time};
use crate::error::Error;
use crate::key::{id_bits, id_bytes, moment, number, small, unsigned};
use crate::name::{NodeId, Tenant};
use crate::page::Page;
use crate::rows::{from_word, word};
use crate::work::{Due, DueWork, Moment, Pending, PendingCursor, PendingFilter, Wake};

/// The retries' rows have no round, by which the two are told apart.
const DUE: &str = "
    SELECT session, call, round, expires_at AS due_at FROM waits
    WHERE expires_at <= ?1 AND claimed_until <= ?1
    UNION ALL
    SELECT session, call, NULL, due_at FROM timers JOIN sessions ON id = session
    WHERE due_at <= ?1 AND claimed_until <= ?1 AND (owner IS NULL OR owner = ?3 OR NOT EXISTS (
      SELECT 1 FROM nodes WHERE node = owner AND lease_until > ?1))
    ORDER BY due_at LIMIT ?2";

const WAKES: &str = "
    SELECT session, seq FROM wakes JOIN sessions ON id = session
    WHERE claimed_until <= ?1 AND (owner IS NULL OR owner = ?2 OR NOT EXISTS (
      SELECT 1 FROM nodes WHERE node = owner AND lease_until > ?1))
    LIMIT ?3";

impl Sqlite {
    pub(crate) async fn pending(
        &self,
        filter: PendingFilter,
        page: Page<PendingCursor>,
    ) -> Result<Vec<Pending>, Error> {
        self.read(move |connection| pending(connection, &filter, &page)).await
    }

    pub(crate) async fn next_due(&self) -> Result<Option<Timestamp>, Error> {
        self.read(|connection| {
            let sql = "SELECT min(at) FROM (SELECT min(expires_at) AS at FROM waits
                       UNION ALL SELECT min(due_at) FROM timers)";
            let at: Option<i64> = connection.query_row(sql, [], |row| row.get(0))?;
            Ok(at.map(moment))
        })
        .await
    }

    pub(crate) async fn claim_due(
        &self,
        node: NodeId,
        now: Moment,
        hold: Millis,
        limit: u32,
    ) -> Result<Vec<Due>, Error> {
        let now = time(now);
        // Most looks find nothing and cost no commit.
        let looker = node.clone();
        if self.read(move |connection| due(connection, &looker, now, 1)).await?.is_empty() {
            return Ok(Vec::new());
        }
        let claim = move |connection: &Connection| {
            let found = due(connection, &node, now, limit)?;
            for due in &found {
                let sql = match due.work {
                    DueWork::Expiry { .. } => {
                        "UPDATE waits SET claimed_until = ?3 WHERE session = ?1 AND call = ?2"
                    }
                    DueWork::Retry => {
                        "UPDATE timers SET claimed_until = ?3 WHERE session = ?1 AND call = ?2"
                    }
                };
                let (session, call) = (id_bytes(due.session.bits()), id_bytes(due.call.bits()));
                let values = params![session, call, (now + hold).ms()];
                connection.prepare_cached(sql)?.execute(values)?;
            }
            Ok::<_, Fault>(found)
        };
        self.writer.write(Hint::Nothing, move |connection| settled(claim(connection))).await
    }

    pub(crate) async fn claim_wakes(
        &self,
        node: NodeId,
        now: Moment,
        hold: Millis,
        limit: u32,
    ) -> Result<Vec<Wake>, Error> {
        let now = time(now);
        let looker = node.clone();
        if self.read(move |connection| wakes(connection, &looker, now, 1)).await?.is_empty() {
            return Ok(Vec::new());
        }
        let claim = move |connection: &Connection| {
            let found = wakes(connection, &node, now, limit)?;
            for wake in &found {
                let sql = "UPDATE wakes SET claimed_until = ?2 WHERE session = ?1";
                let session = id_bytes(wake.session.bits());
                connection.prepare_cached(sql)?.execute(params![session, (now + hold).ms()])?;
            }
            Ok::<_, Fault>(found)
        };
        self.writer.write(Hint::Nothing, move |connection| settled(claim(connection))).await
    }

    pub(crate) async fn wake(&self, session: SessionId) -> Result<(), Error> {
        self.writer
            .write(Hint::Look, move |connection| {
                append::wake(connection, id_bytes(session.bits()), 0).map(Ok)
            })
            .await
    }

    pub(crate) async fn finish_wake(&self, wake: Wake) -> Result<(), Error> {
        self.writer
            .write(Hint::Nothing, move |connection| {
                let sql = "DELETE FROM wakes WHERE session = ?1 AND seq <= ?2";
                let values = params![id_bytes(wake.session.bits()), number(wake.seq)];
                connection.prepare_cached(sql)?.execute(values)?;
                Ok(Ok(()))
            })
            .await
    }
}

fn id(row: &Row<'_>, at: usize) -> Result<u128, Fault> {
    Ok(id_bits(row.get_ref(at)?.as_blob().map_err(Error::corrupt)?)?)
}

fn due(
    connection: &Connection,
    node: &NodeId,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<Due>, Fault> {
    let mut statement = connection.prepare_cached(DUE)?;
    let mut rows = statement.query(params![now.ms(), limit, node.as_str()])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let work = match row.get::<_, Option<i64>>(2)? {
            Some(round) => DueWork::Expiry { round: small(round)? },
            None => DueWork::Retry,
        };
        found.push(Due {
            session: SessionId::from_bits(id(row, 0)?),
            call: CallId::from_bits(id(row, 1)?),
            work,
            due_at: moment(row.get(3)?),
        });
    }
    Ok(found)
}

fn wakes(
    connection: &Connection,
    node: &NodeId,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<Wake>, Fault> {
    let mut statement = connection.prepare_cached(WAKES)?;
    let mut rows = statement.query(params![now.ms(), node.as_str(), limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let session = SessionId::from_bits(id(row, 0)?);
        found.push(Wake { session, seq: unsigned(row.get(1)?)? });
    }
    Ok(found)
}

fn pending(
    connection: &Connection,
    filter: &PendingFilter,
    page: &Page<PendingCursor>,
) -> Result<Vec<Pending>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT waits.session, waits.call, waits.tenant, calls.tool, round, kind, expires_at, since
         FROM waits JOIN calls ON calls.session = waits.session AND calls.call = waits.call
         WHERE (?1 IS NULL OR waits.tenant = ?1) AND (?2 IS NULL OR waits.session = ?2)
           AND (?3 IS NULL OR kind = ?3)
           AND (?4 IS NULL OR (expires_at, waits.session, waits.call) > (?4, ?5, ?6))
         ORDER BY expires_at, waits.session, waits.call LIMIT ?7",
    )?;
    let mut rows = statement.query(params![
        filter.tenant.as_ref().map(Tenant::as_str),
        filter.session.map(|session| id_bytes(session.bits())),
        filter.kind.as_ref().map(word),
        page.after.map(|after| after.expires_at.ms()),
        page.after.map(|after| id_bytes(after.session.bits())),
        page.after.map(|after| id_bytes(after.call.bits())),
        page.limit,
    ])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (tenant, kind): (String, String) = (row.get(2)?, row.get(5)?);
        let unknown = || Error::corrupt("a wait's kind is not a known word");
        found.push(Pending {
            session: SessionId::from_bits(id(row, 0)?),
            call: CallId::from_bits(id(row, 1)?),
            tenant: tenant.parse().map_err(Error::corrupt)?,
            tool: row.get(3)?,
            round: small(row.get(4)?)?,
            kind: from_word(&kind).ok_or_else(unknown)?,
            expires_at: moment(row.get(6)?),
            since: moment(row.get(7)?),
        });
    }
    Ok(found)
}
