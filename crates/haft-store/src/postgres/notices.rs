//! Who is told of what, in PostgreSQL.

use std::sync::Arc;

use haft_core::{Millis, SessionId, Timestamp};
use tokio_postgres::Row;

use super::batch::id as id_of;
use super::{Postgres, column, given, with_clock};
use crate::error::Error;
use crate::key::{id_bits, moment, number, small, unsigned};
use crate::name::Tenant;
use crate::notice::{
    Attempted, ClaimedDelivery, DeliveryClaim, DeliveryState, NoticeKind, PER_WEBHOOK,
    StoredDelivery, Webhook,
};
use crate::page::Page;
use crate::request::RequestStep;
use crate::work::Moment;

/// Whoever has something under way is left alone until that is over.
const CLAIM: &str = with_clock!(
    ", wanted AS (
       SELECT d.key FROM clock CROSS JOIN webhooks AS w CROSS JOIN LATERAL (
         SELECT key FROM deliveries WHERE webhook = w.id AND due_at <= now
         ORDER BY due_at LIMIT $4) AS d
       WHERE NOT EXISTS (SELECT 1 FROM deliveries AS other
         WHERE other.webhook = w.id AND other.due_at IS NOT NULL AND other.claimed_until > now)),
     picked AS (
       SELECT key FROM deliveries, clock
       WHERE key IN (SELECT key FROM wanted) AND due_at <= now AND claimed_until <= now
       LIMIT $3 FOR UPDATE OF deliveries SKIP LOCKED)
     UPDATE deliveries AS d SET claimed_until = now + $2, attempts = attempts + 1
     FROM picked, clock, webhooks AS w WHERE d.key = picked.key AND w.id = d.webhook
     RETURNING d.key, d.attempts, w.id, w.tenant, w.url, w.sealed, d.session, d.seq, d.kind, d.at"
);

const ADD: &str = "
    WITH step AS (
      INSERT INTO requests (id, step, digest, at)
      SELECT $8::bytea, $9::text, $10::bytea, $11::bigint WHERE $8::bytea IS NOT NULL
      ON CONFLICT DO NOTHING),
    added AS (
      INSERT INTO webhooks (id, tenant, url, sealed, author, at) VALUES ($1, $2, $3, $4, $5, $6)
      ON CONFLICT (id) DO UPDATE SET url = excluded.url RETURNING id)
    INSERT INTO webhook_kinds (tenant, kind, webhook)
    SELECT $2, kind, added.id FROM added, unnest($7::text[]) AS t(kind) ON CONFLICT DO NOTHING";

impl Postgres {
    pub(crate) async fn add_webhook(
        &self,
        webhook: Webhook,
        step: Option<Arc<RequestStep>>,
    ) -> Result<(), Error> {
        let Webhook { id, tenant, url, kinds, sealed, by, at } = webhook;
        let author = serde_json::to_string(&by).map_err(Error::corrupt)?;
        let kinds: Vec<_> = kinds.into_iter().map(NoticeKind::as_str).collect();
        let (request, name) =
            step.as_ref().map(|it| (id_of(it.request.0), it.step.clone())).unzip();
        let (digest, begun) =
            step.as_ref().map(|it| (it.digest.as_bytes().to_vec(), it.at.ms())).unzip();
        let values: super::Values<'_> = &[
            &id,
            &tenant.as_str(),
            &url,
            &sealed,
            &author,
            &at.ms(),
            &kinds,
            &request,
            &name,
            &digest,
            &begun,
        ];
        self.query(ADD, values).await.map(|_| ())
    }

    pub(crate) async fn webhooks(&self, tenant: Tenant) -> Result<Vec<Webhook>, Error> {
        let sql = "SELECT id, url, sealed, author, at,
                     ARRAY(SELECT kind FROM webhook_kinds WHERE webhook = id ORDER BY kind)
                   FROM webhooks WHERE tenant = $1 ORDER BY id DESC";
        let webhook = |row: &Row| {
            let kinds: Vec<&str> = column(row, 5)?;
            Ok(Webhook {
                id: column(row, 0)?,
                tenant: tenant.clone(),
                url: column(row, 1)?,
                kinds: kinds.into_iter().map(NoticeKind::stored).collect::<Result<_, _>>()?,
                sealed: column(row, 2)?,
                by: serde_json::from_str(column(row, 3)?).map_err(Error::corrupt)?,
                at: moment(column(row, 4)?),
            })
        };
        self.query(sql, &[&tenant.as_str()]).await?.iter().map(webhook).collect()
    }

    pub(crate) async fn remove_webhook(&self, tenant: Tenant, id: String) -> Result<bool, Error> {
        let sql = "DELETE FROM webhooks WHERE id = $1 AND tenant = $2 RETURNING id";
        Ok(!self.query(sql, &[&id, &tenant.as_str()]).await?.is_empty())
    }

    pub(crate) async fn claim_deliveries(
        &self,
        now: Moment,
        hold: Millis,
        limit: u32,
    ) -> Result<Vec<ClaimedDelivery>, Error> {
        let (now, hold, limit) = (given(now), number(hold.0), i64::from(limit));
        let rows = self.query(CLAIM, &[&now, &hold, &limit, &i64::from(PER_WEBHOOK)]).await?;
        rows.iter().map(claimed).collect()
    }

    pub(crate) async fn settle_delivery(
        &self,
        claim: DeliveryClaim,
        attempted: Attempted,
    ) -> Result<bool, Error> {
        let sql = "UPDATE deliveries SET state = $3, due_at = $4, status = $5, error = $6,
                     attempted_at = $7, claimed_until = 0
                   WHERE key = $1 AND attempts = $2 AND due_at IS NOT NULL RETURNING key";
        let Attempted { next, status, error, at } = attempted;
        let (attempt, status) = (i64::from(claim.attempt), status.map(i64::from));
        let (state, due) = (next.state().as_str(), next.due());
        let values: super::Values<'_> =
            &[&claim.key, &attempt, &state, &due, &status, &error, &at.ms()];
        Ok(!self.query(sql, values).await?.is_empty())
    }

    pub(crate) async fn deliveries(
        &self,
        tenant: Tenant,
        webhook: String,
        page: Page<u64>,
    ) -> Result<Vec<StoredDelivery>, Error> {
        let sql = "SELECT key, session, seq, kind, d.at, state, attempts, attempted_at, due_at,
                     status, error
                   FROM deliveries AS d JOIN webhooks ON id = webhook
                   WHERE webhook = $1 AND tenant = $2 AND ($3::bigint IS NULL OR key < $3)
                   ORDER BY key DESC LIMIT $4";
        let (after, limit) = (page.after.map(number), i64::from(page.limit));
        let values: super::Values<'_> = &[&webhook, &tenant.as_str(), &after, &limit];
        self.query(sql, values).await?.iter().map(stored).collect()
    }

    pub(crate) async fn forget_deliveries(&self, before: Timestamp) -> Result<u64, Error> {
        let sql = "DELETE FROM deliveries WHERE due_at IS NULL AND attempted_at < $1 RETURNING key";
        Ok(self.query(sql, &[&before.ms()]).await?.len() as u64)
    }
}

fn claimed(row: &Row) -> Result<ClaimedDelivery, Error> {
    Ok(ClaimedDelivery {
        claim: DeliveryClaim { key: column(row, 0)?, attempt: small(column(row, 1)?)? },
        webhook: column(row, 2)?,
        tenant: column::<&str>(row, 3)?.parse().map_err(Error::corrupt)?,
        url: column(row, 4)?,
        sealed: column(row, 5)?,
        session: SessionId::from_bits(id_bits(column(row, 6)?)?),
        seq: unsigned(column(row, 7)?)?,
        kind: NoticeKind::stored(column(row, 8)?)?,
        at: moment(column(row, 9)?),
    })
}

fn stored(row: &Row) -> Result<StoredDelivery, Error> {
    let status: Option<i64> = column(row, 9)?;
    Ok(StoredDelivery {
        cursor: unsigned(column(row, 0)?)?,
        session: SessionId::from_bits(id_bits(column(row, 1)?)?),
        seq: unsigned(column(row, 2)?)?,
        kind: NoticeKind::stored(column(row, 3)?)?,
        at: moment(column(row, 4)?),
        state: DeliveryState::stored(column(row, 5)?)?,
        attempts: small(column(row, 6)?)?,
        attempted_at: column::<Option<i64>>(row, 7)?.map(moment),
        due_at: column::<Option<i64>>(row, 8)?.map(moment),
        status: status.map(u16::try_from).transpose().map_err(Error::corrupt)?,
        error: column(row, 10)?,
    })
}
