//! Requests that may be sent again, in SQLite.

use std::ops::RangeInclusive;

use haft_core::{SessionId, Timestamp};
use rusqlite::{Connection, Row, params};

use super::writer::Hint;
use super::{Fault, Sqlite};
use crate::error::Error;
use crate::key::{digest, id_bits, id_bytes, moment};
use crate::request::{RequestId, RequestStep};

/// Returns whether an earlier run of the request has made this write.
pub(super) fn is_done(connection: &Connection, step: &RequestStep) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM requests WHERE id = ?1 AND step = ?2)";
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_row(params![id_bytes(step.request.0), step.step], |row| row.get(0))
}

/// Records a write in its own transaction.
pub(super) fn record(
    connection: &Connection,
    step: &RequestStep,
    note: Option<&str>,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO requests (id, step, digest, at, session, note)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING";
    let values = params![
        id_bytes(step.request.0),
        step.step,
        step.digest.as_bytes(),
        step.at.ms(),
        step.session.map(|session| id_bytes(session.bits())),
        note.or(step.note.as_deref()),
    ];
    connection.prepare_cached(sql)?.execute(values).map(|_| ())
}

impl Sqlite {
    pub(crate) async fn request_salt(&self) -> Result<Vec<u8>, Error> {
        self.read(|connection| {
            let sql = "SELECT salt FROM request_salt LIMIT 1";
            Ok(connection.query_row(sql, [], |row| row.get(0))?)
        })
        .await
    }

    pub(crate) async fn request_rows(
        &self,
        ids: RangeInclusive<RequestId>,
    ) -> Result<Vec<RequestStep>, Error> {
        self.read(move |connection| {
            let sql = "SELECT id, step, digest, at, session, note FROM requests
                       WHERE id BETWEEN ?1 AND ?2 ORDER BY id, step";
            let mut statement = connection.prepare_cached(sql)?;
            let (first, last) = (id_bytes(ids.start().0), id_bytes(ids.end().0));
            let mut rows = statement.query(params![first, last])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push(read_step(row)?);
            }
            Ok(found)
        })
        .await
    }

    pub(crate) async fn keep_answers(&self, answers: Vec<RequestStep>) -> Result<(), Error> {
        self.writer
            .write(Hint::Nothing, move |connection| {
                answers.iter().try_for_each(|answer| record(connection, answer, None))?;
                Ok(Ok(()))
            })
            .await
    }

    pub(crate) async fn forget_requests(
        &self,
        before: Timestamp,
        limit: u32,
    ) -> Result<u64, Error> {
        self.writer
            .write(Hint::Nothing, move |connection| {
                let sql = "DELETE FROM requests WHERE (id, step) IN (
                             SELECT id, step FROM requests WHERE at < ?1 ORDER BY at LIMIT ?2)";
                let gone = connection.prepare_cached(sql)?.execute(params![before.ms(), limit])?;
                Ok(Ok(gone as u64))
            })
            .await
    }
}

fn read_step(row: &Row<'_>) -> Result<RequestStep, Fault> {
    let (request, hash): (Vec<u8>, Vec<u8>) = (row.get(0)?, row.get(2)?);
    let session: Option<Vec<u8>> = row.get(4)?;
    let session = session.map(|session| id_bits(&session).map(SessionId::from_bits));
    Ok(RequestStep {
        request: RequestId(id_bits(&request)?),
        step: row.get(1)?,
        digest: digest(&hash)?,
        at: moment(row.get(3)?),
        session: session.transpose()?,
        note: row.get(5)?,
    })
}
