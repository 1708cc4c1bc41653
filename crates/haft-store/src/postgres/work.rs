//! Work that waits, in PostgreSQL. Claims skip what another node is claiming at this moment.

use haft_core::{CallId, Millis, SessionId, Timestamp};
use tokio_postgres::Row;

use super::batch::id;
use super::{Postgres, column, given, with_clock};
use crate::error::Error;
use crate::key::{id_bits, moment, number, small, unsigned};
use crate::measure::Standing;
use crate::name::{NodeId, Tenant};
use crate::page::Page;
use crate::rows::{actor, from_word, word};
use crate::work::{Due, DueWork, Moment, Pending, PendingCursor, PendingFilter, Wake, told};

const CLAIM_WAITS: &str = with_clock!(
    ", picked AS (
       SELECT session, call FROM waits, clock WHERE expires_at <= now AND claimed_until <= now
       ORDER BY expires_at LIMIT $3 FOR UPDATE OF waits SKIP LOCKED)
     UPDATE waits SET claimed_until = now + $2 FROM picked, clock
     WHERE waits.session = picked.session AND waits.call = picked.call
     RETURNING waits.session, waits.call, expires_at, round"
);

const CLAIM_TIMERS: &str = with_clock!(
    ", picked AS (
       SELECT session, call FROM timers JOIN sessions ON id = session CROSS JOIN clock
       WHERE due_at <= now AND claimed_until <= now AND (owner IS NULL OR owner = $4 OR NOT EXISTS (
         SELECT 1 FROM nodes WHERE node = owner AND lease_until > now))
       ORDER BY due_at LIMIT $3 FOR UPDATE OF timers SKIP LOCKED)
     UPDATE timers SET claimed_until = now + $2 FROM picked, clock
     WHERE timers.session = picked.session AND timers.call = picked.call
     RETURNING timers.session, timers.call, due_at, NULL::bigint"
);

const CLAIM_WAKES: &str = with_clock!(
    ", picked AS (
       SELECT session FROM wakes JOIN sessions ON id = session CROSS JOIN clock
       WHERE claimed_until <= now AND (owner IS NULL OR owner = $4 OR NOT EXISTS (
         SELECT 1 FROM nodes WHERE node = owner AND lease_until > now))
       LIMIT $3 FOR UPDATE OF wakes SKIP LOCKED)
     UPDATE wakes SET claimed_until = now + $2 FROM picked, clock
     WHERE wakes.session = picked.session RETURNING wakes.session, seq"
);

/// A statement for each way to narrow the inbox, so that each has its index.
macro_rules! pending {
    ($which:literal) => {
        concat!(
            "SELECT waits.session, waits.call, waits.tenant, calls.tool, round, kind, expires_at,
               since, told, config_seq
             FROM waits
             JOIN calls ON calls.session = waits.session AND calls.call = waits.call
             JOIN sessions ON sessions.id = waits.session
             WHERE (kind = $3 OR ($3::text IS NULL AND kind <> 'child')) AND expires_at > $5
               AND (inbox_rank, expires_at, waits.session, waits.call)
                 > ($6::smallint, $7::bigint, $8::bytea, $9::bytea)
               AND ",
            $which,
            " ORDER BY inbox_rank, expires_at, waits.session, waits.call LIMIT $10"
        )
    };
}
const PENDING_OF_SESSION: &str = pending!(
    "waits.session = $2 AND ($1::text IS NULL OR waits.tenant = $1)
     AND ($4::text IS NULL OR waits.opened_by = $4)"
);
const PENDING_OF_OPENER: &str =
    pending!("waits.tenant = $1 AND waits.opened_by = $4 AND $2::bytea IS NULL");
const PENDING_OF_TENANT: &str =
    pending!("waits.tenant = $1 AND $4::text IS NULL AND $2::bytea IS NULL");
const PENDING: &str = pending!(
    "$1::text IS NULL AND $2::bytea IS NULL AND ($4::text IS NULL OR waits.opened_by = $4)"
);

impl Postgres {
    pub(crate) async fn pending(
        &self,
        filter: PendingFilter,
        page: Page<PendingCursor>,
    ) -> Result<Vec<Pending>, Error> {
        let sql = match (&filter.session, &filter.tenant, &filter.opened_by) {
            (Some(_), _, _) => PENDING_OF_SESSION,
            (None, Some(_), Some(_)) => PENDING_OF_OPENER,
            (None, Some(_), None) => PENDING_OF_TENANT,
            (None, None, _) => PENDING,
        };
        let tenant = filter.tenant.as_ref().map(Tenant::as_str);
        let session = filter.session.map(|session| id(session.bits()));
        let (kind, opened_by) =
            (filter.kind.as_ref().map(word), filter.opened_by.as_ref().map(actor));
        let expires_after = filter.expires_after.map_or(i64::MIN, |after| after.ms());
        let rank = page.after.map_or(0, PendingCursor::rank);
        let after = page.after.map_or(i64::MIN, |after| after.expires_at.ms());
        // An id is never empty: what is stands before every other.
        let after_session = page.after.map_or_else(Vec::new, |after| id(after.session.bits()));
        let after_call = page.after.map_or_else(Vec::new, |after| id(after.call.bits()));
        let limit = i64::from(page.limit);
        let values: super::Values<'_> = &[
            &tenant,
            &session,
            &kind,
            &opened_by,
            &expires_after,
            &rank,
            &after,
            &after_session,
            &after_call,
            &limit,
        ];
        self.query(sql, values).await?.iter().map(pending).collect()
    }

    pub(crate) async fn standing(&self) -> Result<Standing, Error> {
        standing(&self.query(WAITING, &[]).await?, &self.query(DELIVERIES, &[]).await?)
    }

    pub(crate) async fn next_due(&self) -> Result<Option<Timestamp>, Error> {
        let sql =
            "SELECT least((SELECT min(expires_at) FROM waits), (SELECT min(due_at) FROM timers))";
        let rows = self.query(sql, &[]).await?;
        let at: Option<i64> = rows.first().map_or(Ok(None), |row| column(row, 0))?;
        Ok(at.map(moment))
    }

    pub(crate) async fn claim_due(
        &self,
        node: NodeId,
        now: Moment,
        hold: Millis,
        limit: u32,
    ) -> Result<Vec<Due>, Error> {
        let (now, hold) = (given(now), number(hold.0));
        let mut rows = self.query(CLAIM_WAITS, &[&now, &hold, &i64::from(limit)]).await?;
        let left = i64::from(limit) - number(rows.len() as u64);
        if left > 0 {
            let values: super::Values<'_> = &[&now, &hold, &left, &node.as_str()];
            rows.extend(self.query(CLAIM_TIMERS, values).await?);
        }
        let mut found = rows.iter().map(due).collect::<Result<Vec<_>, _>>()?;
        found.sort_by_key(|due| due.due_at);
        Ok(found)
    }

    pub(crate) async fn claim_wakes(
        &self,
        node: NodeId,
        now: Moment,
        hold: Millis,
        limit: u32,
    ) -> Result<Vec<Wake>, Error> {
        let (now, hold, limit) = (given(now), number(hold.0), i64::from(limit));
        let rows = self.query(CLAIM_WAKES, &[&now, &hold, &limit, &node.as_str()]).await?;
        let wake = |row: &Row| {
            let session = SessionId::from_bits(id_bits(column(row, 0)?)?);
            Ok(Wake { session, seq: unsigned(column(row, 1)?)? })
        };
        rows.iter().map(wake).collect()
    }

    pub(crate) async fn wake(&self, session: SessionId) -> Result<(), Error> {
        let sql = "INSERT INTO wakes (session, seq) SELECT id, 0 FROM sessions WHERE id = $1
                   ON CONFLICT (session) DO UPDATE SET claimed_until = 0 RETURNING session";
        if self.query(sql, &[&id(session.bits())]).await?.is_empty() {
            return Err(Error::unknown_session(session));
        }
        self.hints.sender().tell();
        Ok(())
    }

    pub(crate) async fn finish_wake(&self, wake: Wake) -> Result<(), Error> {
        let sql = "DELETE FROM wakes WHERE session = $1 AND seq <= $2";
        self.query(sql, &[&id(wake.session.bits()), &number(wake.seq)]).await?;
        Ok(())
    }
}

/// How many calls wait for what.
pub(super) const WAITING: &str = "SELECT kind, count(*) FROM waits GROUP BY kind";

/// How many deliveries are still to be made.
pub(super) const DELIVERIES: &str = "SELECT count(*) FROM deliveries WHERE due_at IS NOT NULL";

/// Puts together what [`WAITING`] and [`DELIVERIES`] have found.
pub(super) fn standing(waiting: &[Row], deliveries: &[Row]) -> Result<Standing, Error> {
    let unknown = || Error::corrupt("a wait's kind is not a known word");
    let waiting = waiting.iter().map(|row| {
        let kind = from_word(column(row, 0)?).ok_or_else(unknown)?;
        Ok((kind, unsigned(column(row, 1)?)?))
    });
    let waiting = waiting.collect::<Result<_, Error>>()?;
    let deliveries = deliveries.first().map_or(Ok(0), |row| column(row, 0))?;
    Ok(Standing { waiting, deliveries: unsigned(deliveries)? })
}

fn due(row: &Row) -> Result<Due, Error> {
    let work = match column::<Option<i64>>(row, 3)? {
        Some(round) => DueWork::Expiry { round: small(round)? },
        None => DueWork::Retry,
    };
    Ok(Due {
        session: SessionId::from_bits(id_bits(column(row, 0)?)?),
        call: CallId::from_bits(id_bits(column(row, 1)?)?),
        work,
        due_at: moment(column(row, 2)?),
    })
}

fn pending(row: &Row) -> Result<Pending, Error> {
    let unknown = || Error::corrupt("a wait's kind is not a known word");
    Ok(Pending {
        session: SessionId::from_bits(id_bits(column(row, 0)?)?),
        call: CallId::from_bits(id_bits(column(row, 1)?)?),
        tenant: column::<&str>(row, 2)?.parse().map_err(Error::corrupt)?,
        tool: column(row, 3)?,
        round: small(column(row, 4)?)?,
        kind: from_word(column(row, 5)?).ok_or_else(unknown)?,
        expires_at: moment(column(row, 6)?),
        since: moment(column(row, 7)?),
        told: told(column(row, 8)?)?,
        config_seq: unsigned(column(row, 9)?)?,
    })
}
