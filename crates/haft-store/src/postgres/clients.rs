//! Which clients are connected where, in PostgreSQL.

use haft_core::{Millis, SessionId};

use super::batch::id;
use super::{Postgres, column, given, with_clock};
use crate::client::{Attendance, ClientNote, REMEMBERED_MS};
use crate::error::Error;
use crate::key::unsigned;
use crate::name::NodeId;
use crate::work::Moment;

const FORGET: &str = with_clock!(
    "DELETE FROM clients USING clock WHERE coalesce(left_at,
       (SELECT lease_until FROM nodes WHERE nodes.node = clients.node)) < now - $2"
);

const NOTE: &str = with_clock!(
    "INSERT INTO clients (node, session, tool, left_at)
     SELECT $2, session, tool, CASE WHEN gone THEN now END
     FROM clock, unnest($3::bytea[], $4::text[], $5::boolean[]) AS note (session, tool, gone)
     ON CONFLICT (session, tool, node) DO UPDATE SET left_at = excluded.left_at"
);

const AWAY_FOR: &str = with_clock!(
    "SELECT min(greatest(now - coalesce(left_at, lease_until), 0))
     FROM clock, clients LEFT JOIN nodes ON nodes.node = clients.node
     WHERE session = $2 AND tool = $3 AND coalesce(left_at, lease_until) IS NOT NULL"
);

impl Postgres {
    pub(crate) async fn note_clients(
        &self,
        node: NodeId,
        notes: Vec<ClientNote>,
        now: Moment,
    ) -> Result<(), Error> {
        let sessions: Vec<_> = notes.iter().map(|note| id(note.session.bits())).collect();
        let tools: Vec<_> = notes.iter().map(|note| note.tool.as_str()).collect();
        let gone: Vec<_> = notes.iter().map(|note| note.attendance == Attendance::Gone).collect();
        self.query(FORGET, &[&given(now), &REMEMBERED_MS]).await?;
        let values: super::Values<'_> = &[&given(now), &node.as_str(), &sessions, &tools, &gone];
        self.query(NOTE, values).await.map(|_| ())
    }

    pub(crate) async fn client_away_for(
        &self,
        session: SessionId,
        tool: String,
        now: Moment,
    ) -> Result<Option<Millis>, Error> {
        let rows = self.query(AWAY_FOR, &[&given(now), &id(session.bits()), &tool]).await?;
        let away: Option<i64> = rows.first().map_or(Ok(None), |row| column(row, 0))?;
        away.map(|away| unsigned(away).map(Millis)).transpose()
    }
}
