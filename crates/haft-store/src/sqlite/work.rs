//! Work that waits, in SQLite.

use haft_core::{CallId, Millis, SessionId, Timestamp};
use rusqlite::{Connection, Row, named_params, params};

use super::journal::Log;
use super::writer::Hint;
use super::{Fault, Sqlite, append, settled, time};
use crate::error::Error;
use crate::key::{id_bits, id_bytes, moment, number, small, unsigned};
use crate::measure::Standing;
use crate::name::{NodeId, Tenant};
use crate::page::Page;
use crate::rows::{actor, from_word, word};
use crate::work::{Due, DueWork, Moment, Pending, PendingCursor, PendingFilter, Wake, told};

/// The retries' rows have no round, by which the two are told apart.
const DUE: &str = "
    SELECT calls.key, id, call, round, expires_at AS due_at
    FROM calls JOIN sessions ON sessions.key = session
    WHERE expires_at <= ?1 AND claimed_until <= ?1
    UNION ALL
    SELECT calls.key, id, call, NULL, retry_at FROM calls JOIN sessions ON sessions.key = session
    WHERE retry_at <= ?1 AND claimed_until <= ?1 AND (owner IS NULL OR owner = ?3 OR NOT EXISTS (
      SELECT 1 FROM nodes WHERE node = owner AND lease_until > ?1))
    ORDER BY due_at LIMIT ?2";

const WAKES: &str = "
    SELECT key, id, seq FROM wakes JOIN sessions ON key = session
    WHERE claimed_until <= ?1 AND (owner IS NULL OR owner = ?2 OR NOT EXISTS (
      SELECT 1 FROM nodes WHERE node = owner AND lease_until > ?1))
    LIMIT ?3";

/// A statement for each way to narrow the inbox, so that each has its index.
macro_rules! pending {
    ($which:literal) => {
        concat!(
            "SELECT id, call, calls.tenant, tool, round, kind, expires_at, since, told, config_seq
             FROM calls JOIN sessions ON sessions.key = session
             WHERE expires_at > :expires_after
               AND (inbox_rank, expires_at) >= (:rank, :expires_at)
               AND (inbox_rank, expires_at, id, call)
                 > (:rank, :expires_at, :after_session, :after_call)
               AND (kind = :kind OR (:kind IS NULL AND kind <> 'child')) AND ",
            $which,
            " ORDER BY inbox_rank, expires_at, id, call LIMIT :limit"
        )
    };
}
const PENDING_OF_SESSION: &str = pending!(
    "session = (SELECT key FROM sessions WHERE id = :session)
     AND (:tenant IS NULL OR calls.tenant = :tenant)
     AND (:opened_by IS NULL OR calls.opened_by = :opened_by)"
);
const PENDING_OF_OPENER: &str =
    pending!("calls.tenant = :tenant AND calls.opened_by = :opened_by AND :session IS NULL");
const PENDING_OF_TENANT: &str =
    pending!("calls.tenant = :tenant AND :session IS NULL AND :opened_by IS NULL");
const PENDING: &str = pending!(
    ":tenant IS NULL AND :session IS NULL
     AND (:opened_by IS NULL OR calls.opened_by = :opened_by)"
);

impl Sqlite {
    pub(crate) async fn pending(
        &self,
        filter: PendingFilter,
        page: Page<PendingCursor>,
    ) -> Result<Vec<Pending>, Error> {
        self.read(move |connection| pending(connection, &filter, &page)).await
    }

    pub(crate) async fn standing(&self) -> Result<Standing, Error> {
        self.read(standing).await
    }

    pub(crate) async fn next_due(&self) -> Result<Option<Timestamp>, Error> {
        self.read(|connection| {
            let sql = "SELECT min(at) FROM (
                         SELECT min(expires_at) AS at FROM calls WHERE expires_at IS NOT NULL
                         UNION ALL SELECT min(retry_at) FROM calls WHERE retry_at IS NOT NULL)";
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
            let sql = "UPDATE calls SET claimed_until = ?2 WHERE key = ?1";
            let mut hold_it = connection.prepare_cached(sql)?;
            for (key, _) in &found {
                hold_it.execute(params![key, (now + hold).ms()])?;
            }
            let found = found.into_iter().map(|(_, due)| due).collect();
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
            let sql = "UPDATE wakes SET claimed_until = ?2 WHERE session = ?1";
            let mut hold_it = connection.prepare_cached(sql)?;
            for (key, _) in &found {
                hold_it.execute(params![key, (now + hold).ms()])?;
            }
            let found = found.into_iter().map(|(_, wake)| wake).collect();
            Ok::<_, Fault>(found)
        };
        self.writer.write(Hint::Nothing, move |connection| settled(claim(connection))).await
    }

    pub(crate) async fn wake(&self, session: SessionId) -> Result<(), Error> {
        let wake = move |connection: &Connection| {
            let log = Log::find(connection, session)?;
            let log = log.ok_or_else(|| Error::unknown_session(session))?;
            Ok::<_, Fault>(append::wake(connection, log.key, 0, 0)?)
        };
        self.writer.write(Hint::Look, move |connection| settled(wake(connection))).await
    }

    pub(crate) async fn finish_wake(&self, wake: Wake) -> Result<(), Error> {
        self.writer
            .write(Hint::Nothing, move |connection| Ok(Ok(finish_wake(connection, wake)?)))
            .await
    }
}

/// Counts the calls that wait and the deliveries that are still to be made.
pub(super) fn standing(connection: &Connection) -> Result<Standing, Fault> {
    let sql = "SELECT kind, count(*) FROM calls WHERE expires_at IS NOT NULL GROUP BY kind";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    let mut standing = Standing::default();
    while let Some(row) = rows.next()? {
        let kind: String = row.get(0)?;
        let unknown = || Error::corrupt("a wait's kind is not a known word");
        let kind = from_word(&kind).ok_or_else(unknown)?;
        standing.waiting.push((kind, unsigned(row.get(1)?)?));
    }
    let sql = "SELECT count(*) FROM deliveries WHERE due_at IS NOT NULL";
    standing.deliveries = unsigned(connection.query_row(sql, [], |row| row.get(0))?)?;
    Ok(standing)
}

pub(super) fn finish_wake(connection: &Connection, wake: Wake) -> rusqlite::Result<()> {
    let sql = "DELETE FROM wakes
               WHERE session = (SELECT key FROM sessions WHERE id = ?1) AND seq <= ?2";
    let values = params![id_bytes(wake.session.bits()), number(wake.seq)];
    connection.prepare_cached(sql)?.execute(values).map(|_| ())
}

fn id(row: &Row<'_>, at: usize) -> Result<u128, Fault> {
    Ok(id_bits(row.get_ref(at)?.as_blob().map_err(Error::corrupt)?)?)
}

fn due(
    connection: &Connection,
    node: &NodeId,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<(i64, Due)>, Fault> {
    let mut statement = connection.prepare_cached(DUE)?;
    let mut rows = statement.query(params![now.ms(), limit, node.as_str()])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let work = match row.get::<_, Option<i64>>(3)? {
            Some(round) => DueWork::Expiry { round: small(round)? },
            None => DueWork::Retry,
        };
        let due = Due {
            session: SessionId::from_bits(id(row, 1)?),
            call: CallId::from_bits(id(row, 2)?),
            work,
            due_at: moment(row.get(4)?),
        };
        found.push((row.get(0)?, due));
    }
    Ok(found)
}

fn wakes(
    connection: &Connection,
    node: &NodeId,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<(i64, Wake)>, Fault> {
    let mut statement = connection.prepare_cached(WAKES)?;
    let mut rows = statement.query(params![now.ms(), node.as_str(), limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let session = SessionId::from_bits(id(row, 1)?);
        found.push((row.get(0)?, Wake { session, seq: unsigned(row.get(2)?)? }));
    }
    Ok(found)
}

fn pending(
    connection: &Connection,
    filter: &PendingFilter,
    page: &Page<PendingCursor>,
) -> Result<Vec<Pending>, Fault> {
    let sql = match (&filter.session, &filter.tenant, &filter.opened_by) {
        (Some(_), _, _) => PENDING_OF_SESSION,
        (None, Some(_), Some(_)) => PENDING_OF_OPENER,
        (None, Some(_), None) => PENDING_OF_TENANT,
        (None, None, _) => PENDING,
    };
    // An id is never the empty blob, which stands before every other.
    let id_after = |bits: Option<u128>| bits.map_or_else(Vec::new, |bits| id_bytes(bits).to_vec());
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(named_params! {
        ":tenant": filter.tenant.as_ref().map(Tenant::as_str),
        ":session": filter.session.map(|session| id_bytes(session.bits())),
        ":kind": filter.kind.as_ref().map(word),
        ":opened_by": filter.opened_by.as_ref().map(actor),
        ":expires_after": filter.expires_after.map_or(i64::MIN, |after| after.ms()),
        ":rank": page.after.map_or(0, PendingCursor::rank),
        ":expires_at": page.after.map_or(i64::MIN, |after| after.expires_at.ms()),
        ":after_session": id_after(page.after.map(|after| after.session.bits())),
        ":after_call": id_after(page.after.map(|after| after.call.bits())),
        ":limit": page.limit,
    })?;
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
            told: told(row.get_ref(8)?.as_str_or_null().map_err(Error::corrupt)?)?,
            config_seq: unsigned(row.get(9)?)?,
        });
    }
    Ok(found)
}
