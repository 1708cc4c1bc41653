//! The record of authority in PostgreSQL.

use haft_core::Digest;
use haft_core::journal::Head;
use tokio_postgres::Row;

use super::audit::Reading;
use super::content::Failed;
use super::link::{Connected, trouble};
use super::{Postgres, column};
use crate::audit::{AuditReport, Damage};
use crate::authority::{AuthorityEntry, SPACES, is_recorded};
use crate::content::{Put, Which};
use crate::error::Error;
use crate::key::{digest, number, unsigned};

/// Whoever adds to the record waits here for whoever is about to.
const LOCK: &str = "SELECT pg_advisory_xact_lock(1212237397)";

const HEAD: &str = "SELECT number, hash FROM authority ORDER BY number DESC LIMIT 1";

const INSERT: &str = "
    INSERT INTO authority (number, tenant, space, key, version, digest, author, at, hash)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";

const ALL: &str = "
    SELECT number, tenant, space, key, version, digest, author, at, hash FROM authority
    ORDER BY number";

const UNLIKE: &str = "
    SELECT v.tenant, v.space, v.key, v.number, a.number IS NULL FROM versions AS v
    LEFT JOIN authority AS a ON a.tenant = v.tenant AND a.space = v.space AND a.key = v.key
      AND a.version = v.number
    WHERE v.space = ANY($1) AND (a.number IS NULL OR a.digest IS DISTINCT FROM v.digest
      OR a.author <> v.author OR a.at <> v.at)
    UNION ALL
    SELECT a.tenant, a.space, a.key, a.version, NULL::boolean FROM authority AS a
    WHERE NOT EXISTS (SELECT 1 FROM versions AS v WHERE a.tenant = v.tenant
      AND a.space = v.space AND a.key = v.key AND a.version = v.number)";

impl Postgres {
    pub(crate) async fn authority_head(&self) -> Result<Head, Error> {
        head_of(&self.query(HEAD, &[]).await?)
    }
}

fn head_of(rows: &[Row]) -> Result<Head, Error> {
    match rows.first() {
        Some(row) => Ok(Head { seq: unsigned(column(row, 0)?)?, hash: digest(column(row, 1)?)? }),
        None => Ok(Head::EMPTY),
    }
}

/// Waits for whoever is about to add to the record, if anything of this is for it.
pub(super) async fn queue(connected: &Connected, puts: &[Put]) -> Result<(), Failed> {
    if puts.iter().any(|put| is_recorded(put.place.space())) {
        connected.run(LOCK).await?;
    }
    Ok(())
}

/// Records a version that was written, if its space is one of those that are.
pub(super) async fn record(
    connected: &Connected,
    place: (&str, &str, &str),
    version: u64,
    content: Option<&[u8]>,
    written: (&str, i64),
) -> Result<(), Failed> {
    if !is_recorded(place.1) {
        return Ok(());
    }
    let head = head_of(&connected.query(HEAD, &[]).await?)?;
    let entry = AuthorityEntry::after(head, place, version, content, written);
    insert(connected, &entry).await?;
    Ok(())
}

async fn insert(
    connected: &Connected,
    entry: &AuthorityEntry,
) -> Result<(), tokio_postgres::Error> {
    let (place, version) = (number(entry.number), number(entry.version));
    let hash = entry.hash.as_bytes().to_vec();
    let AuthorityEntry { tenant, space, key, digest, author, at, .. } = entry;
    connected
        .execute(INSERT, &[&place, tenant, space, key, &version, digest, author, at, &hash])
        .await?;
    Ok(())
}

/// Records the versions that were written before there was a record.
pub(super) async fn fill(connected: &Connected) -> Result<(), Error> {
    let sql = "SELECT tenant, space, key, number, digest, author, at FROM versions
               WHERE space = ANY($1) AND NOT EXISTS (SELECT 1 FROM authority)
               ORDER BY at, tenant, space, key, number";
    let rows = connected.query(sql, &[&&SPACES[..]]).await.map_err(|error| trouble(&error))?;
    let mut head = Head::EMPTY;
    for row in &rows {
        let place = (column(row, 0)?, column(row, 1)?, column(row, 2)?);
        let (version, content) = (unsigned(column(row, 3)?)?, column(row, 4)?);
        let written = (column(row, 5)?, column(row, 6)?);
        let entry = AuthorityEntry::after(head, place, version, content, written);
        head = entry.head();
        insert(connected, &entry).await.map_err(|error| trouble(&error))?;
    }
    Ok(())
}

/// Returns whether a version that was read is the one that was recorded. The row has the entry
/// from column 5 on, after it the hash of the entry before, and the latest version that was recorded.
pub(super) fn is_as_recorded(row: &Row, which: Which) -> Result<bool, Error> {
    if column::<Option<i64>>(row, 5)?.is_none() {
        return Ok(false);
    }
    let entry = entry(row, 5)?;
    if which == Which::Latest && unsigned(column(row, 15)?)? != entry.version {
        return Ok(false);
    }
    let previous: Option<&[u8]> = column(row, 14)?;
    let previous = previous.map_or(Ok(Digest::ZERO), digest)?;
    let (content, author, at): (Option<&[u8]>, &str, i64) =
        (column(row, 1)?, column(row, 2)?, column(row, 3)?);
    let is_same =
        (content, author, at) == (entry.digest.as_deref(), entry.author.as_str(), entry.at);
    Ok(is_same && entry.chained(previous) == entry.hash)
}

fn entry(row: &Row, at: usize) -> Result<AuthorityEntry, Error> {
    Ok(AuthorityEntry {
        number: unsigned(column(row, at)?)?,
        tenant: column(row, at + 1)?,
        space: column(row, at + 2)?,
        key: column(row, at + 3)?,
        version: unsigned(column(row, at + 4)?)?,
        digest: column(row, at + 5)?,
        author: column(row, at + 6)?,
        at: column(row, at + 7)?,
        hash: digest(column(row, at + 8)?)?,
    })
}

/// Checks the record, and the versions against it.
pub(super) async fn audit(reading: &Reading<'_>, report: &mut AuditReport) -> Result<(), Error> {
    let rows = reading.0.query(ALL, &[]).await.map_err(|error| trouble(&error))?;
    let entries: Result<Vec<_>, _> = rows.iter().map(|row| entry(row, 0)).collect();
    report.take_authority(&entries?);
    let rows = reading.0.query(UNLIKE, &[&&SPACES[..]]).await.map_err(|error| trouble(&error))?;
    for row in &rows {
        let place = (column(row, 0)?, column(row, 1)?, column(row, 2)?);
        let message = AuditReport::unlike(place, column(row, 3)?, column(row, 4)?);
        report.find(Damage::Authority, None, message);
    }
    Ok(())
}
