//! Which clients are connected where, in SQLite, and which calls wait for one in vain.

use haft_core::{CallId, Millis, SessionId};
use rusqlite::{Connection, params};

use super::writer::Hint;
use super::{Fault, Sqlite, settled, time};
use crate::client::{Attendance, ClientNote, REMEMBERED_MS};
use crate::error::Error;
use crate::key::{id_bits, id_bytes, moment, number, small, unsigned};
use crate::name::NodeId;
use crate::page::Page;
use crate::work::{Abandoned, AbandonedCursor, Looked, Moment};

/// Which waits are for the clients of a role that the program of the session does not answer for.
const FOR_ROLE: &str = "
    UPDATE calls SET unattended_since = ?3
    WHERE session = (SELECT key FROM sessions WHERE id = ?1) AND tool = ?2
      AND expires_at IS NOT NULL AND kind = 'client_exec' AND custom = 0";

/// A client counts until it left, or until its node was last heard of. The smallest is for how long
/// nobody has been there; none where nobody was seen.
const AWAY: &str = "
    (SELECT min(max(?1 - coalesce(left_at, lease_until), 0))
     FROM clients LEFT JOIN nodes ON nodes.node = clients.node
     WHERE clients.session = sessions.id AND clients.tool = calls.tool
       AND coalesce(left_at, lease_until) IS NOT NULL)";

impl Sqlite {
    pub(crate) async fn note_clients(
        &self,
        node: NodeId,
        notes: Vec<ClientNote>,
        now: Moment,
    ) -> Result<(), Error> {
        let now = time(now).ms();
        self.writer
            .write(Hint::Nothing, move |connection| {
                let sql = "DELETE FROM clients WHERE coalesce(left_at,
                             (SELECT lease_until FROM nodes WHERE nodes.node = clients.node)) < ?1";
                connection.prepare_cached(sql)?.execute([now - REMEMBERED_MS])?;
                let sql = "INSERT INTO clients (node, session, tool, left_at)
                           VALUES (?1, ?2, ?3, ?4)
                           ON CONFLICT (session, tool, node) DO UPDATE
                           SET left_at = excluded.left_at";
                let mut note = connection.prepare_cached(sql)?;
                let mut attend = connection.prepare_cached(FOR_ROLE)?;
                for ClientNote { session, tool, attendance } in &notes {
                    let left_at = (*attendance == Attendance::Gone).then_some(now);
                    let session = id_bytes(session.bits());
                    note.execute(params![node.as_str(), session, tool, left_at])?;
                    attend.execute(params![session, tool, left_at])?;
                }
                Ok(Ok(()))
            })
            .await
    }

    pub(crate) async fn client_away_for(
        &self,
        session: SessionId,
        tool: String,
        now: Moment,
    ) -> Result<Option<Millis>, Error> {
        let now = time(now).ms();
        self.read(move |connection| {
            let sql = "SELECT min(max(?1 - coalesce(left_at, lease_until), 0))
                       FROM clients LEFT JOIN nodes ON nodes.node = clients.node
                       WHERE session = ?2 AND tool = ?3
                         AND coalesce(left_at, lease_until) IS NOT NULL";
            let values = params![now, id_bytes(session.bits()), tool];
            let away: Option<i64> =
                connection.prepare_cached(sql)?.query_row(values, |row| row.get(0))?;
            Ok(away.map(unsigned).transpose()?.map(Millis))
        })
        .await
    }

    pub(crate) async fn abandoned(
        &self,
        grace: Millis,
        now: Moment,
        page: Page<AbandonedCursor>,
    ) -> Result<Looked, Error> {
        let (now, grace) = (time(now).ms(), number(grace.0));
        // Most looks find nothing and cost no commit.
        if !self.read(move |connection| Ok(has_unattended(connection, now, grace)?)).await? {
            return Ok(Looked { abandoned: Vec::new(), is_full: false });
        }
        let look = move |connection: &Connection| {
            lapsed_nodes(connection, now)?;
            abandoned(connection, now, grace, &page)
        };
        self.writer.write(Hint::Nothing, move |connection| settled(look(connection))).await
    }
}

/// Notes that the clients of a node have left.
pub(super) fn clients_left(connection: &Connection, node: &str, now: i64) -> rusqlite::Result<()> {
    unattended_by(connection, node, now)?;
    let sql = "UPDATE clients SET left_at = ?2 WHERE node = ?1 AND left_at IS NULL";
    connection.execute(sql, params![node, now]).map(|_| ())
}

fn unattended_by(connection: &Connection, node: &str, since: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE calls SET unattended_since = ?2
               WHERE expires_at IS NOT NULL AND kind = 'client_exec' AND custom = 0
                 AND unattended_since IS NULL AND key IN (
                   SELECT waiting.key FROM clients
                   JOIN sessions ON sessions.id = clients.session
                   JOIN calls AS waiting ON waiting.session = sessions.key
                     AND waiting.tool = clients.tool AND waiting.expires_at IS NOT NULL
                   WHERE clients.node = ?1 AND left_at IS NULL)";
    connection.prepare_cached(sql)?.execute(params![node, since]).map(|_| ())
}

fn has_unattended(connection: &Connection, now: i64, grace: i64) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM calls WHERE unattended_since <= ?1 - ?2)
                 OR EXISTS (SELECT 1 FROM nodes WHERE lease_until <= ?1 AND clients_left = 0)";
    connection.prepare_cached(sql)?.query_row([now, grace], |row| row.get(0))
}

/// The clients of a node whose lease ran out have left with it; that is looked at once.
fn lapsed_nodes(connection: &Connection, now: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE nodes SET clients_left = 1 WHERE lease_until <= ?1 AND clients_left = 0
               RETURNING node, lease_until";
    let mut statement = connection.prepare_cached(sql)?;
    let lapsed = statement.query_map([now], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let lapsed: Vec<(String, i64)> = lapsed.collect::<Result<_, _>>()?;
    for (node, lease_until) in lapsed {
        unattended_by(connection, &node, lease_until)?;
    }
    Ok(())
}

/// Returns the waits that nobody was there for, and takes note of those that somebody is: they are
/// not looked at again before that one leaves.
fn abandoned(
    connection: &Connection,
    now: i64,
    grace: i64,
    page: &Page<AbandonedCursor>,
) -> Result<Looked, Fault> {
    let sql = format!(
        "SELECT calls.key, id, call, round, tool, unattended_since, {AWAY} AS away
         FROM calls JOIN sessions ON sessions.key = calls.session
         WHERE unattended_since <= ?1 - ?2
           AND (unattended_since, id, call) > (?3, ?4, ?5)
         ORDER BY unattended_since, id, call LIMIT ?6"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let id_after = |bits: Option<u128>| bits.map_or_else(Vec::new, |bits| id_bytes(bits).to_vec());
    let mut rows = statement.query(params![
        now,
        grace,
        page.after.map_or(i64::MIN, |after| after.since.ms()),
        id_after(page.after.map(|after| after.session.bits())),
        id_after(page.after.map(|after| after.call.bits())),
        page.limit,
    ])?;
    let (mut found, mut attended) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next()? {
        let key: i64 = row.get(0)?;
        match row.get::<_, Option<i64>>(6)? {
            Some(away) if away < grace => attended.push((key, (away > 0).then_some(now - away))),
            Some(_) | None => found.push(Abandoned {
                session: SessionId::from_bits(id_bits(
                    row.get_ref(1)?.as_blob().map_err(Error::corrupt)?,
                )?),
                call: CallId::from_bits(id_bits(
                    row.get_ref(2)?.as_blob().map_err(Error::corrupt)?,
                )?),
                round: small(row.get(3)?)?,
                tool: row.get(4)?,
                since: moment(row.get(5)?),
            }),
        }
    }
    let is_full = found.len() + attended.len() == page.limit as usize;
    let sql = "UPDATE calls SET unattended_since = ?2 WHERE key = ?1";
    let mut attend = connection.prepare_cached(sql)?;
    for (key, since) in attended {
        attend.execute(params![key, since])?;
    }
    Ok(Looked { abandoned: found, is_full })
}
