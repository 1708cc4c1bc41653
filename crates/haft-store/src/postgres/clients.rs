//! Which clients are connected where, in PostgreSQL, and which calls wait for one in vain.

use haft_core::{CallId, Millis, SessionId};

use super::batch::id;
use super::{Postgres, column, given, with_clock};
use crate::client::{Attendance, ClientNote, REMEMBERED_MS};
use crate::error::Error;
use crate::key::{id_bits, moment, number, small, unsigned};
use crate::name::NodeId;
use crate::page::Page;
use crate::work::{Abandoned, AbandonedCursor, Looked, Moment};

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

/// Which waits the clients that came or left are for. It follows the note, so that whoever looks
/// between the two finds the clients as they are.
const ATTEND: &str = with_clock!(
    "UPDATE waits SET unattended_since = CASE WHEN gone THEN now END
     FROM clock, calls, unnest($2::bytea[], $3::text[], $4::boolean[]) AS note (whose, name, gone)
     WHERE calls.session = whose AND calls.tool = name AND NOT calls.custom
       AND waits.session = calls.session AND waits.call = calls.call AND kind = 'client_exec'"
);

/// The clients of a node whose lease ran out have left with it; that is looked at once.
const LAPSED: &str = with_clock!(
    ", lapsed AS (
       UPDATE nodes SET clients_left = true FROM clock
       WHERE lease_until <= now AND NOT clients_left RETURNING node, lease_until)
     UPDATE waits SET unattended_since = lapsed.lease_until
     FROM lapsed
     JOIN clients ON clients.node = lapsed.node AND left_at IS NULL
     JOIN calls ON calls.session = clients.session AND calls.tool = clients.tool
       AND NOT calls.custom
     WHERE waits.session = calls.session AND waits.call = calls.call AND kind = 'client_exec'
       AND unattended_since IS NULL"
);

const LEFT: &str = with_clock!(
    ", left_here AS (
       UPDATE clients SET left_at = now FROM clock WHERE node = $2 AND left_at IS NULL
       RETURNING session, tool)
     UPDATE waits SET unattended_since = now
     FROM clock, left_here
     JOIN calls ON calls.session = left_here.session AND calls.tool = left_here.tool
       AND NOT calls.custom
     WHERE waits.session = calls.session AND waits.call = calls.call AND kind = 'client_exec'
       AND unattended_since IS NULL"
);

/// The waits that nobody was there for. Those that somebody is there for are not looked at again
/// before that one leaves; one who leaves at this very moment has changed the row, which is then
/// left alone.
const ABANDONED: &str = with_clock!(
    ", unattended AS (
       SELECT waits.session, waits.call, round, calls.tool, unattended_since AS since, (
         SELECT min(greatest(now - coalesce(left_at, lease_until), 0))
         FROM clients LEFT JOIN nodes ON nodes.node = clients.node
         WHERE clients.session = waits.session AND clients.tool = calls.tool
           AND coalesce(left_at, lease_until) IS NOT NULL) AS away
       FROM clock, waits
       JOIN calls ON calls.session = waits.session AND calls.call = waits.call
       WHERE unattended_since <= now - $2
         AND (unattended_since, waits.session, waits.call) > ($3, $4::bytea, $5::bytea)
       ORDER BY unattended_since, waits.session, waits.call LIMIT $6),
     attended AS (
       UPDATE waits SET unattended_since = CASE WHEN away > 0 THEN now - away END
       FROM clock, unattended
       WHERE away < $2 AND waits.session = unattended.session AND waits.call = unattended.call
         AND waits.unattended_since = unattended.since)
     SELECT session, call, round, tool, since, away IS NULL OR away >= $2 FROM unattended
     ORDER BY since, session, call"
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
        self.query(NOTE, values).await?;
        let values: super::Values<'_> = &[&given(now), &sessions, &tools, &gone];
        self.query(ATTEND, values).await.map(|_| ())
    }

    /// Notes that the clients of a node have left.
    pub(super) async fn clients_left(&self, node: &NodeId) -> Result<(), Error> {
        self.query(LEFT, &[&given(Moment::Clock), &node.as_str()]).await.map(|_| ())
    }

    pub(crate) async fn abandoned(
        &self,
        grace: Millis,
        now: Moment,
        page: Page<AbandonedCursor>,
    ) -> Result<Looked, Error> {
        if page.after.is_none() {
            self.query(LAPSED, &[&given(now)]).await?;
        }
        let after = page.after.map_or(i64::MIN, |after| after.since.ms());
        let after_session = page.after.map_or_else(Vec::new, |after| id(after.session.bits()));
        let after_call = page.after.map_or_else(Vec::new, |after| id(after.call.bits()));
        let (grace, limit) = (number(grace.0), i64::from(page.limit));
        let values: super::Values<'_> =
            &[&given(now), &grace, &after, &after_session, &after_call, &limit];
        let rows = self.query(ABANDONED, values).await?;
        let is_full = rows.len() == page.limit as usize;
        let mut abandoned = Vec::new();
        for row in &rows {
            if !column::<bool>(row, 5)? {
                continue;
            }
            abandoned.push(Abandoned {
                session: SessionId::from_bits(id_bits(column(row, 0)?)?),
                call: CallId::from_bits(id_bits(column(row, 1)?)?),
                round: small(column(row, 2)?)?,
                tool: column(row, 3)?,
                since: moment(column(row, 4)?),
            });
        }
        Ok(Looked { abandoned, is_full })
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
