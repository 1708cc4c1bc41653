//! Requests that may be sent again, in PostgreSQL.

use std::ops::RangeInclusive;

use haft_core::{SessionId, Timestamp};
use tokio_postgres::Row;

use super::batch::id;
use super::link::Connected;
use super::{Postgres, column};
use crate::error::Error;
use crate::key::{digest, id_bits, moment};
use crate::request::{RequestId, RequestStep};

const RECORD: &str = "
    INSERT INTO requests (id, step, digest, at, session, note) VALUES ($1, $2, $3, $4, $5, $6)";

const KEEP: &str = "
    INSERT INTO requests (id, step, digest, at, note)
    SELECT * FROM unnest($1::bytea[], $2::text[], $3::bytea[], $4::bigint[], $5::text[])
    ON CONFLICT DO NOTHING";

/// Returns whether an earlier run of the request has made this write.
pub(super) async fn is_done(
    connected: &Connected,
    step: &RequestStep,
) -> Result<bool, tokio_postgres::Error> {
    let sql = "SELECT 1 FROM requests WHERE id = $1 AND step = $2";
    let rows = connected.query(sql, &[&id(step.request.0), &step.step]).await?;
    Ok(!rows.is_empty())
}

/// Records a write in its own transaction; fails when another run of the request was first.
pub(super) async fn record(
    connected: &Connected,
    step: &RequestStep,
    note: Option<&str>,
) -> Result<(), tokio_postgres::Error> {
    let (hash, at) = (step.digest.as_bytes().to_vec(), step.at.ms());
    let session = step.session.map(|session| id(session.bits()));
    let note = note.or(step.note.as_deref());
    let values: super::Values<'_> = &[&id(step.request.0), &step.step, &hash, &at, &session, &note];
    connected.execute(RECORD, values).await.map(|_| ())
}

impl Postgres {
    pub(crate) async fn request_salt(&self) -> Result<Vec<u8>, Error> {
        let rows = self.query("SELECT salt FROM request_salt LIMIT 1", &[]).await?;
        let row = rows.first().ok_or_else(|| Error::corrupt("the salt of requests is gone"))?;
        column(row, 0)
    }

    pub(crate) async fn request_rows(
        &self,
        ids: RangeInclusive<RequestId>,
    ) -> Result<Vec<RequestStep>, Error> {
        let sql = "SELECT id, step, digest, at, session, note FROM requests
                   WHERE id BETWEEN $1 AND $2 ORDER BY id, step";
        let rows = self.query(sql, &[&id(ids.start().0), &id(ids.end().0)]).await?;
        rows.iter().map(read_step).collect()
    }

    pub(crate) async fn keep_answers(&self, answers: Vec<RequestStep>) -> Result<(), Error> {
        let ids: Vec<_> = answers.iter().map(|answer| id(answer.request.0)).collect();
        let hash = |answer: &RequestStep| answer.digest.as_bytes().to_vec();
        let hashes: Vec<_> = answers.iter().map(hash).collect();
        let steps: Vec<_> = answers.iter().map(|answer| answer.step.as_str()).collect();
        let times: Vec<_> = answers.iter().map(|answer| answer.at.ms()).collect();
        let notes: Vec<_> = answers.iter().map(|answer| answer.note.as_deref()).collect();
        let values: super::Values<'_> = &[&ids, &steps, &hashes, &times, &notes];
        self.query(KEEP, values).await.map(|_| ())
    }

    pub(crate) async fn forget_requests(
        &self,
        before: Timestamp,
        limit: u32,
    ) -> Result<u64, Error> {
        let sql = "DELETE FROM requests WHERE (id, step) IN (
                     SELECT id, step FROM requests WHERE at < $1 ORDER BY at LIMIT $2)
                   RETURNING 1";
        let gone = self.query(sql, &[&before.ms(), &i64::from(limit)]).await?;
        Ok(gone.len() as u64)
    }
}

fn read_step(row: &Row) -> Result<RequestStep, Error> {
    let session: Option<&[u8]> = column(row, 4)?;
    let session = session.map(|session| id_bits(session).map(SessionId::from_bits));
    Ok(RequestStep {
        request: RequestId(id_bits(column(row, 0)?)?),
        step: column(row, 1)?,
        digest: digest(column(row, 2)?)?,
        at: moment(column(row, 3)?),
        session: session.transpose()?,
        note: column(row, 5)?,
    })
}
