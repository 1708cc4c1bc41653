//! Sessions in PostgreSQL: reading, owning, listing.

use std::ops::RangeInclusive;

use haft_core::journal::{Entry, Head};
use haft_core::{CallId, Millis, SessionId, Timestamp};
use tokio_postgres::Row;

use super::batch::id;
use super::{Postgres, column, given, with_clock};
use crate::error::Error;
use crate::key::{digest, id_bits, moment, number, small, unsigned};
use crate::name::{NodeId, Tenant};
use crate::page::Page;
use crate::rows::{CallStage, SessionStatus, actor, from_word};
use crate::session::{
    AcquireError, DEAD_REMEMBERED_MS, FoundCall, Lease, ListedSession, RawSession, RawSnapshot,
    SessionFilter, StoredCall,
};
use crate::store::Whole;
use crate::work::{Moment, Wake};

impl Postgres {
    /// Row and snapshot first, then the entries: whatever was appended between the two belongs to
    /// the log all the same, and an epoch that has moved meanwhile fences the reader's append.
    pub(crate) async fn read_session(
        &self,
        session: SessionId,
        whole: Whole,
    ) -> Result<Option<RawSession>, Error> {
        let sql = "SELECT tenant, epoch, owner, snapshots.seq, format, body, head_seq, created_at,
                     updated_at
                   FROM sessions LEFT JOIN snapshots ON session = id WHERE id = $1";
        let rows = self.query(sql, &[&id(session.bits())]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let snapshot = match (whole, column::<Option<i64>>(row, 3)?) {
            (Whole::FromSnapshot, Some(seq)) => Some(RawSnapshot {
                seq: unsigned(seq)?,
                format: small(column(row, 4)?)?,
                body: column(row, 5)?,
            }),
            (Whole::FromSnapshot | Whole::Log, _) => None,
        };
        // The snapshot's own entry is read too: its hash is what the next one is chained to.
        let after = snapshot.as_ref().map_or(0, |snapshot| snapshot.seq.saturating_sub(1));
        let owner: Option<&str> = column(row, 2)?;
        Ok(Some(RawSession {
            tenant: column::<&str>(row, 0)?.parse().map_err(Error::corrupt)?,
            epoch: unsigned(column(row, 1)?)?,
            head_seq: unsigned(column(row, 6)?)?,
            created_at: moment(column(row, 7)?),
            updated_at: moment(column(row, 8)?),
            owner: owner.map(str::parse).transpose().map_err(Error::corrupt)?,
            entries: self.entries_up_to(session, after, None).await?,
            snapshot,
        }))
    }

    pub(crate) async fn tenant(&self, session: SessionId) -> Result<Option<Tenant>, Error> {
        let sql = "SELECT tenant FROM sessions WHERE id = $1";
        let rows = self.query(sql, &[&id(session.bits())]).await?;
        let tenant = |row: &Row| column::<&str>(row, 0)?.parse().map_err(Error::corrupt);
        rows.first().map(tenant).transpose()
    }

    pub(crate) async fn entries(
        &self,
        session: SessionId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<Entry>, Error> {
        self.entries_up_to(session, after, Some(i64::from(limit))).await
    }

    async fn entries_up_to(
        &self,
        session: SessionId,
        after: u64,
        limit: Option<i64>,
    ) -> Result<Vec<Entry>, Error> {
        let sql = "SELECT seq, at, format, hash, body FROM events
                   WHERE session = $1 AND seq > $2 ORDER BY seq LIMIT $3";
        let rows = self.query(sql, &[&id(session.bits()), &number(after), &limit]).await?;
        rows.iter().map(|row| entry(session, row)).collect()
    }

    pub(crate) async fn entries_at(
        &self,
        places: Vec<(SessionId, u64)>,
    ) -> Result<Vec<Entry>, Error> {
        let sql = "SELECT seq, at, format, hash, body, session
                   FROM unnest($1::bytea[], $2::bigint[]) AS place (whose, at_seq)
                   JOIN events ON session = whose AND seq = at_seq";
        let sessions: Vec<_> = places.iter().map(|(session, _)| id(session.bits())).collect();
        let seqs: Vec<_> = places.iter().map(|(_, seq)| number(*seq)).collect();
        let rows = self.query(sql, &[&sessions, &seqs]).await?;
        let found = rows.iter().map(|row| {
            let session = SessionId::from_bits(id_bits(column(row, 5)?)?);
            entry(session, row)
        });
        found.collect()
    }

    pub(crate) async fn head(&self, session: SessionId) -> Result<Option<Head>, Error> {
        let sql = "SELECT head_seq, head_hash FROM sessions WHERE id = $1";
        let rows = self.query(sql, &[&id(session.bits())]).await?;
        let head =
            |row| Ok(Head { seq: unsigned(column(row, 0)?)?, hash: digest(column(row, 1)?)? });
        rows.first().map(head).transpose()
    }

    pub(crate) async fn heartbeat(
        &self,
        node: NodeId,
        now: Moment,
        ttl: Millis,
    ) -> Result<Timestamp, Error> {
        // Whoever else forgets the same nodes is not waited for, and the subqueries are such that
        // no plan asks them of any but the long dead.
        let sql = with_clock!(
            ", forgotten AS (
               DELETE FROM nodes WHERE node IN (
                 SELECT node FROM nodes, clock WHERE lease_until < now - $4 AND node <> $2
                   AND (SELECT 1 FROM sessions WHERE owner = nodes.node LIMIT 1) IS NULL
                   AND (SELECT 1 FROM clients WHERE clients.node = nodes.node LIMIT 1) IS NULL
                 FOR UPDATE OF nodes SKIP LOCKED))
             INSERT INTO nodes (node, lease_until) SELECT $2, now + $3 FROM clock
             ON CONFLICT (node) DO UPDATE
             SET lease_until = excluded.lease_until, clients_left = false
             RETURNING lease_until"
        );
        let values: super::Values<'_> =
            &[&given(now), &node.as_str(), &number(ttl.0), &DEAD_REMEMBERED_MS];
        let rows = self.heart.query(sql, values).await?;
        let row = rows.first().ok_or_else(|| Error::corrupt("no heartbeat came back"))?;
        Ok(moment(column(row, 0)?))
    }

    /// The takeover is one update of the session's row, which every append of an owner checks
    /// under that row's lock; the node's lease only says when it may happen.
    pub(crate) async fn acquire(
        &self,
        session: SessionId,
        node: NodeId,
        now: Moment,
    ) -> Result<Lease, AcquireError> {
        let sql = with_clock!(
            "UPDATE sessions SET owner = $3, epoch = epoch + 1 FROM clock
             WHERE id = $2 AND (owner IS NULL OR owner = $3 OR NOT EXISTS (
               SELECT 1 FROM nodes WHERE node = owner AND lease_until > now))
             RETURNING epoch, head_seq, head_hash"
        );
        let key = id(session.bits());
        loop {
            let taken = self.query(sql, &[&given(now), &key, &node.as_str()]).await?;
            if let Some(row) = taken.first() {
                let (epoch, seq) = (unsigned(column(row, 0)?)?, unsigned(column(row, 1)?)?);
                let head = Head { seq, hash: digest(column(row, 2)?)? };
                return Ok(Lease { session, node, epoch, head });
            }
            let rows = self.query("SELECT owner FROM sessions WHERE id = $1", &[&key]).await?;
            let row = rows.first().ok_or(AcquireError::UnknownSession)?;
            match column_owner(row)? {
                Some(owner) if owner != node => return Err(AcquireError::Held { owner }),
                // It was given back between the two statements, so that the next try finds it free.
                Some(_) | None => {}
            }
        }
    }

    pub(crate) async fn release(&self, lease: Lease, wake: Option<Wake>) -> Result<(), Error> {
        let sql = "WITH finished AS (DELETE FROM wakes WHERE session = $1 AND seq <= $4)
                   UPDATE sessions SET owner = NULL WHERE id = $1 AND owner = $2 AND epoch = $3";
        let session = id(lease.session.bits());
        let finished = wake.map(|wake| number(wake.seq));
        self.query(sql, &[&session, &lease.node.as_str(), &number(lease.epoch), &finished]).await?;
        Ok(())
    }

    pub(crate) async fn owned_or_orphaned(
        &self,
        node: NodeId,
        now: Moment,
    ) -> Result<Vec<SessionId>, Error> {
        let sql = with_clock!(
            "SELECT id FROM sessions CROSS JOIN clock
             WHERE owner IS NOT NULL AND (owner = $2 OR NOT EXISTS (
               SELECT 1 FROM nodes WHERE node = owner AND lease_until > now))"
        );
        let rows = self.query(sql, &[&given(now), &node.as_str()]).await?;
        rows.iter().map(|row| Ok(SessionId::from_bits(id_bits(column(row, 0)?)?))).collect()
    }

    pub(crate) async fn retire(&self, node: NodeId) -> Result<(), Error> {
        // Whatever ran in them is for the next owner to recover.
        let sql = "WITH freed AS (
                     UPDATE sessions SET owner = NULL WHERE owner = $1 RETURNING id, head_seq)
                   INSERT INTO wakes (session, seq) SELECT id, head_seq FROM freed
                   ON CONFLICT (session) DO UPDATE
                   SET seq = greatest(wakes.seq, excluded.seq), claimed_until = 0";
        self.query(sql, &[&node.as_str()]).await?;
        self.clients_left(&node).await?;
        self.query("DELETE FROM nodes WHERE node = $1", &[&node.as_str()]).await?;
        self.hints.sender().tell();
        Ok(())
    }

    pub(crate) async fn call(
        &self,
        session: SessionId,
        call: CallId,
    ) -> Result<Option<StoredCall>, Error> {
        let sql = "SELECT tool, stage, class, decided, updated_at FROM calls
                   WHERE session = $1 AND call = $2";
        let rows = self.query(sql, &[&id(session.bits()), &id(call.bits())]).await?;
        rows.first().map(stored_call).transpose()
    }

    pub(crate) async fn calls_between(
        &self,
        tenant: Tenant,
        ids: RangeInclusive<CallId>,
        limit: u32,
    ) -> Result<Vec<FoundCall>, Error> {
        let sql = "SELECT tool, stage, class, decided, calls.updated_at, session, call
                   FROM calls JOIN sessions ON id = session
                   WHERE call BETWEEN $1 AND $2 AND tenant = $3 ORDER BY call DESC LIMIT $4";
        let (first, last) = (id(ids.start().bits()), id(ids.end().bits()));
        let rows = self.query(sql, &[&first, &last, &tenant.as_str(), &i64::from(limit)]).await?;
        let found = rows.iter().map(|row| {
            let session = SessionId::from_bits(id_bits(column(row, 5)?)?);
            let call = CallId::from_bits(id_bits(column(row, 6)?)?);
            Ok(FoundCall { session, call, known: stored_call(row)? })
        });
        found.collect()
    }

    pub(crate) async fn sessions(
        &self,
        filter: SessionFilter,
        page: Page<SessionId>,
    ) -> Result<Vec<ListedSession>, Error> {
        let sql = "SELECT id, tenant, status, head_seq, created_at, updated_at,
                     (SELECT count(*) FROM waits WHERE waits.session = sessions.id), agent, parent
                   FROM sessions
                   WHERE ($1::text IS NULL OR tenant = $1) AND ($2::text IS NULL OR status = $2)
                     AND ($3::bytea IS NULL OR id < $3) AND ($5::text IS NULL OR agent = $5)
                     AND ($6::bytea IS NULL OR parent = $6)
                     AND ($7::text IS NULL OR opened_by = $7)
                   ORDER BY id DESC LIMIT $4";
        let agent = filter.agent.as_deref();
        let parent = filter.parent.map(|parent| id(parent.bits()));
        let tenant = filter.tenant.as_ref().map(Tenant::as_str);
        let status = filter.status.map(SessionStatus::as_str);
        let after = page.after.map(|after| id(after.bits()));
        let (limit, opened_by) = (i64::from(page.limit), filter.opened_by.as_ref().map(actor));
        let values: super::Values<'_> =
            &[&tenant, &status, &after, &limit, &agent, &parent, &opened_by];
        let rows = self.query(sql, values).await?;
        rows.iter().map(listed_session).collect()
    }
}

fn entry(session: SessionId, row: &Row) -> Result<Entry, Error> {
    Ok(Entry {
        session,
        seq: unsigned(column(row, 0)?)?,
        at: moment(column(row, 1)?),
        format: small(column(row, 2)?)?,
        hash: digest(column(row, 3)?)?,
        body: column(row, 4)?,
    })
}

fn column_owner(row: &Row) -> Result<Option<NodeId>, Error> {
    let owner: Option<&str> = column(row, 0)?;
    owner.map(NodeId::new).transpose().map_err(Error::corrupt)
}

fn stored_call(row: &Row) -> Result<StoredCall, Error> {
    let unknown = |what: &str| Error::corrupt(format!("a call's {what} is not a known word"));
    let class: Option<&str> = column(row, 2)?;
    let class = class.map(|class| from_word(class).ok_or_else(|| unknown("class")));
    let decided: Option<&str> = column(row, 3)?;
    let decided = decided.map(|decided| serde_json::from_str(decided).map_err(Error::corrupt));
    Ok(StoredCall {
        tool: column(row, 0)?,
        stage: CallStage::parse(column(row, 1)?).ok_or_else(|| unknown("stage"))?,
        class: class.transpose()?,
        decided: decided.transpose()?,
        updated_at: moment(column(row, 4)?),
    })
}

fn listed_session(row: &Row) -> Result<ListedSession, Error> {
    let unknown = || Error::corrupt("a session's status is not a known word");
    let (agent, parent): (Option<String>, Option<&[u8]>) = (column(row, 7)?, column(row, 8)?);
    Ok(ListedSession {
        agent,
        parent: parent.map(|parent| id_bits(parent).map(SessionId::from_bits)).transpose()?,
        session: SessionId::from_bits(id_bits(column(row, 0)?)?),
        tenant: column::<&str>(row, 1)?.parse().map_err(Error::corrupt)?,
        status: SessionStatus::parse(column(row, 2)?).ok_or_else(unknown)?,
        head_seq: unsigned(column(row, 3)?)?,
        created_at: moment(column(row, 4)?),
        updated_at: moment(column(row, 5)?),
        n_waiting: unsigned(column(row, 6)?)?,
    })
}
