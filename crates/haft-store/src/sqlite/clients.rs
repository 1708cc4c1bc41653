//! Which clients are connected where, in SQLite.

use haft_core::{Millis, SessionId};
use rusqlite::params;

use super::writer::Hint;
use super::{Sqlite, time};
use crate::client::{Attendance, ClientNote, REMEMBERED_MS};
use crate::error::Error;
use crate::key::{id_bytes, unsigned};
use crate::name::NodeId;
use crate::work::Moment;

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
                for ClientNote { session, tool, attendance } in &notes {
                    let left_at = (*attendance == Attendance::Gone).then_some(now);
                    let session = id_bytes(session.bits());
                    note.execute(params![node.as_str(), session, tool, left_at])?;
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
}
