//! Who is told of what, in SQLite.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haft_core::{Millis, SessionId, Timestamp};
use rusqlite::{Connection, Row, params};

use super::writer::Hint;
use super::{Fault, Sqlite, requests, settled, time};
use crate::append::Prepared;
use crate::error::Error;
use crate::key::{id_bits, id_bytes, moment, number, small, unsigned};
use crate::name::Tenant;
use crate::notice::{
    Attempted, ClaimedDelivery, DeliveryClaim, DeliveryState, NoticeKind, PER_WEBHOOK,
    StoredDelivery, Webhook,
};
use crate::page::Page;
use crate::request::RequestStep;
use crate::work::Moment;

/// Whoever has something under way is left alone until that is over.
const DUE: &str = "
    SELECT d.key, d.attempts + 1, w.id, w.tenant, w.url, w.sealed, d.session, d.seq, d.kind, d.at
    FROM webhooks AS w JOIN deliveries AS d ON d.key IN (
      SELECT key FROM deliveries WHERE webhook = w.id AND due_at <= ?1
      ORDER BY due_at LIMIT ?3)
    WHERE NOT EXISTS (
      SELECT 1 FROM deliveries WHERE webhook = w.id AND due_at IS NOT NULL AND claimed_until > ?1)
    LIMIT ?2";

/// Whether anyone may want to hear of anything: while nobody does, an append need not look. A clone
/// shares it.
#[derive(Debug, Clone)]
pub(super) struct Hearers(Arc<AtomicBool>);

impl Hearers {
    pub(super) fn find(connection: &Connection) -> rusqlite::Result<Self> {
        let sql = "SELECT EXISTS (SELECT 1 FROM webhook_kinds)";
        let there_are = connection.query_row(sql, [], |row| row.get(0))?;
        Ok(Self(Arc::new(AtomicBool::new(there_are))))
    }

    pub(super) fn may_be_there(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Only the writer's thread adds them, and only it asks.
    fn come(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writes a delivery of what an append tells for everyone who wants to hear of it.
pub(super) fn tell(connection: &Connection, prepared: &Prepared, key: i64) -> rusqlite::Result<()> {
    let sql = "INSERT INTO deliveries (webhook, session, seq, kind, at, due_at)
               SELECT webhook, ?2, ?3, kind, ?5, ?5 FROM webhook_kinds
               WHERE tenant = (SELECT tenant FROM sessions WHERE key = ?1) AND kind = ?4";
    for notice in &prepared.rows.notices {
        connection.prepare_cached(sql)?.execute(params![
            key,
            id_bytes(prepared.session.bits()),
            number(prepared.seq_of(notice)),
            notice.kind.as_str(),
            prepared.at.ms(),
        ])?;
    }
    Ok(())
}

impl Sqlite {
    pub(crate) async fn add_webhook(
        &self,
        webhook: Webhook,
        step: Option<Arc<RequestStep>>,
    ) -> Result<(), Error> {
        let hearers = self.hearers.clone();
        let add = move |connection: &Connection| {
            hearers.come();
            let sql = "INSERT INTO webhooks (id, tenant, url, sealed, author, at)
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            let Webhook { id, tenant, url, kinds, sealed, by, at } = &webhook;
            let author = serde_json::to_string(by).map_err(Error::corrupt)?;
            let values = params![id, tenant.as_str(), url, sealed, author, at.ms()];
            connection.prepare_cached(sql)?.execute(values)?;
            let sql = "INSERT OR IGNORE INTO webhook_kinds (tenant, kind, webhook)
                       VALUES (?1, ?2, ?3)";
            for kind in kinds {
                let values = params![tenant.as_str(), kind.as_str(), id];
                connection.prepare_cached(sql)?.execute(values)?;
            }
            if let Some(step) = step.as_deref() {
                requests::record(connection, step, None)?;
            }
            Ok::<_, Fault>(())
        };
        self.writer.write(Hint::Nothing, move |connection| settled(add(connection))).await
    }

    pub(crate) async fn webhooks(&self, tenant: Tenant) -> Result<Vec<Webhook>, Error> {
        self.read(move |connection| webhooks(connection, &tenant)).await
    }

    pub(crate) async fn remove_webhook(&self, tenant: Tenant, id: String) -> Result<bool, Error> {
        let remove = move |connection: &Connection| {
            let sql = "DELETE FROM webhooks WHERE id = ?1 AND tenant = ?2";
            Ok(connection.prepare_cached(sql)?.execute(params![id, tenant.as_str()])? > 0)
        };
        self.writer.write(Hint::Nothing, move |connection| settled(remove(connection))).await
    }

    pub(crate) async fn claim_deliveries(
        &self,
        now: Moment,
        hold: Millis,
        limit: u32,
    ) -> Result<Vec<ClaimedDelivery>, Error> {
        let now = time(now);
        // Most looks find nothing and cost no commit.
        if self.read(move |connection| due(connection, now, 1)).await?.is_empty() {
            return Ok(Vec::new());
        }
        let claim = move |connection: &Connection| {
            let found = due(connection, now, limit)?;
            let sql = "UPDATE deliveries SET claimed_until = ?2, attempts = attempts + 1
                       WHERE key = ?1";
            let mut hold_it = connection.prepare_cached(sql)?;
            for delivery in &found {
                hold_it.execute(params![delivery.claim.key, (now + hold).ms()])?;
            }
            Ok::<_, Fault>(found)
        };
        self.writer.write(Hint::Nothing, move |connection| settled(claim(connection))).await
    }

    pub(crate) async fn settle_delivery(
        &self,
        claim: DeliveryClaim,
        attempted: Attempted,
    ) -> Result<bool, Error> {
        let settle = move |connection: &Connection| {
            let sql = "UPDATE deliveries SET state = ?3, due_at = ?4, status = ?5, error = ?6,
                         attempted_at = ?7, claimed_until = 0
                       WHERE key = ?1 AND attempts = ?2 AND due_at IS NOT NULL";
            let Attempted { next, status, error, at } = &attempted;
            let (state, due) = (next.state().as_str(), next.due());
            let values = params![claim.key, claim.attempt, state, due, status, error, at.ms()];
            Ok(connection.prepare_cached(sql)?.execute(values)? > 0)
        };
        self.writer.write(Hint::Nothing, move |connection| settled(settle(connection))).await
    }

    pub(crate) async fn deliveries(
        &self,
        tenant: Tenant,
        webhook: String,
        page: Page<u64>,
    ) -> Result<Vec<StoredDelivery>, Error> {
        self.read(move |connection| deliveries(connection, &tenant, &webhook, &page)).await
    }

    pub(crate) async fn forget_deliveries(&self, before: Timestamp) -> Result<u64, Error> {
        let forget = move |connection: &Connection| {
            let sql = "DELETE FROM deliveries WHERE due_at IS NULL AND attempted_at < ?1";
            Ok(connection.prepare_cached(sql)?.execute([before.ms()])? as u64)
        };
        self.writer.write(Hint::Nothing, move |connection| settled(forget(connection))).await
    }
}

fn webhooks(connection: &Connection, tenant: &Tenant) -> Result<Vec<Webhook>, Fault> {
    let sql = "SELECT id, url, sealed, author, at,
                 (SELECT group_concat(kind) FROM webhook_kinds WHERE webhook = id)
               FROM webhooks WHERE tenant = ?1 ORDER BY id DESC";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([tenant.as_str()])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (author, kinds): (String, Option<String>) = (row.get(3)?, row.get(5)?);
        let kinds = kinds.unwrap_or_default();
        let kinds = kinds.split(',').filter(|word| !word.is_empty()).map(NoticeKind::stored);
        found.push(Webhook {
            id: row.get(0)?,
            tenant: tenant.clone(),
            url: row.get(1)?,
            kinds: kinds.collect::<Result<_, _>>()?,
            sealed: row.get(2)?,
            by: serde_json::from_str(&author).map_err(Error::corrupt)?,
            at: moment(row.get(4)?),
        });
    }
    Ok(found)
}

fn due(connection: &Connection, now: Timestamp, limit: u32) -> Result<Vec<ClaimedDelivery>, Fault> {
    let mut statement = connection.prepare_cached(DUE)?;
    let mut rows = statement.query(params![now.ms(), limit, PER_WEBHOOK])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (tenant, word): (String, String) = (row.get(3)?, row.get(8)?);
        found.push(ClaimedDelivery {
            claim: DeliveryClaim { key: row.get(0)?, attempt: small(row.get(1)?)? },
            webhook: row.get(2)?,
            tenant: tenant.parse().map_err(Error::corrupt)?,
            url: row.get(4)?,
            sealed: row.get(5)?,
            session: session(row, 6)?,
            seq: unsigned(row.get(7)?)?,
            kind: NoticeKind::stored(&word)?,
            at: moment(row.get(9)?),
        });
    }
    Ok(found)
}

fn deliveries(
    connection: &Connection,
    tenant: &Tenant,
    webhook: &str,
    page: &Page<u64>,
) -> Result<Vec<StoredDelivery>, Fault> {
    let sql = "SELECT key, session, seq, kind, d.at, state, attempts, attempted_at, due_at, status,
                 error
               FROM deliveries AS d JOIN webhooks ON id = webhook
               WHERE webhook = ?1 AND tenant = ?2 AND (?3 IS NULL OR key < ?3)
               ORDER BY key DESC LIMIT ?4";
    let mut statement = connection.prepare_cached(sql)?;
    let after = page.after.map(number);
    let mut rows = statement.query(params![webhook, tenant.as_str(), after, page.limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (word, state): (String, String) = (row.get(3)?, row.get(5)?);
        found.push(StoredDelivery {
            cursor: unsigned(row.get(0)?)?,
            session: session(row, 1)?,
            seq: unsigned(row.get(2)?)?,
            kind: NoticeKind::stored(&word)?,
            at: moment(row.get(4)?),
            state: DeliveryState::stored(&state)?,
            attempts: small(row.get(6)?)?,
            attempted_at: row.get::<_, Option<i64>>(7)?.map(moment),
            due_at: row.get::<_, Option<i64>>(8)?.map(moment),
            status: row.get(9)?,
            error: row.get(10)?,
        });
    }
    Ok(found)
}

fn session(row: &Row<'_>, at: usize) -> Result<SessionId, Fault> {
    let bytes = row.get_ref(at)?.as_blob().map_err(Error::corrupt)?;
    Ok(SessionId::from_bits(id_bits(bytes)?))
}
