//! The record of authority in SQLite.

use haft_core::Digest;
use haft_core::journal::Head;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{Fault, Sqlite};
use crate::audit::{AuditReport, Damage};
use crate::authority::{AuthorityEntry, SPACES, is_recorded};
use crate::content::Which;
use crate::error::Error;
use crate::key::{digest, number, unsigned};

const COLUMNS: &str = "number, tenant, space, key, version, digest, author, at, hash";

impl Sqlite {
    pub(crate) async fn authority_head(&self) -> Result<Head, Error> {
        self.read(head).await
    }
}

/// Where the record ends.
fn head(connection: &Connection) -> Result<Head, Fault> {
    let sql = "SELECT number, hash FROM authority ORDER BY number DESC LIMIT 1";
    let last: Option<(i64, Vec<u8>)> = connection
        .prepare_cached(sql)?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match last {
        Some((last, hash)) => Ok(Head { seq: unsigned(last)?, hash: digest(&hash)? }),
        None => Ok(Head::EMPTY),
    }
}

/// Records a version that was written, if its space is one of those that are.
pub(super) fn record(
    connection: &Connection,
    place: (&str, &str, &str),
    version: u64,
    content: Option<&[u8]>,
    written: (&str, i64),
) -> Result<(), Fault> {
    if !is_recorded(place.1) {
        return Ok(());
    }
    let entry = AuthorityEntry::after(head(connection)?, place, version, content, written);
    insert(connection, &entry)?;
    Ok(())
}

fn insert(connection: &Connection, entry: &AuthorityEntry) -> rusqlite::Result<()> {
    let sql =
        format!("INSERT INTO authority ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
    connection.prepare_cached(&sql)?.execute(params![
        number(entry.number),
        entry.tenant,
        entry.space,
        entry.key,
        number(entry.version),
        entry.digest,
        entry.author,
        entry.at,
        entry.hash.as_bytes(),
    ])?;
    Ok(())
}

/// Records the versions that were written before there was a record.
pub(super) fn fill(connection: &Connection) -> rusqlite::Result<()> {
    let sql = format!(
        "SELECT tenant, space, key, number, digest, author, at FROM versions
         WHERE space IN ({}) AND NOT EXISTS (SELECT 1 FROM authority)
         ORDER BY at, tenant, space, key, number",
        quoted()
    );
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([])?;
    let mut head = Head::EMPTY;
    while let Some(row) = rows.next()? {
        let (tenant, space, key): (String, String, String) =
            (row.get(0)?, row.get(1)?, row.get(2)?);
        let (version, content): (i64, Option<Vec<u8>>) = (row.get(3)?, row.get(4)?);
        let (author, at): (String, i64) = (row.get(5)?, row.get(6)?);
        let (place, version) = ((&*tenant, &*space, &*key), version.unsigned_abs());
        let entry = AuthorityEntry::after(head, place, version, content.as_deref(), (&author, at));
        head = entry.head();
        insert(connection, &entry)?;
    }
    Ok(())
}

fn quoted() -> String {
    SPACES.map(|space| format!("'{space}'")).join(", ")
}

/// Returns whether a version that was read is the one that was recorded. The row has the entry
/// from column 5 on, after it the hash of the entry before, and the latest version that was recorded.
pub(super) fn is_as_recorded(row: &Row<'_>, which: Which) -> Result<bool, Fault> {
    if row.get::<_, Option<i64>>(5)?.is_none() {
        return Ok(false);
    }
    let entry = entry(row, 5)?;
    if which == Which::Latest && unsigned(row.get(15)?)? != entry.version {
        return Ok(false);
    }
    let previous: Option<Vec<u8>> = row.get(14)?;
    let previous = previous.map_or(Ok(Digest::ZERO), |hash| digest(&hash))?;
    let (content, author, at): (Option<Vec<u8>>, String, i64) =
        (row.get(1)?, row.get(2)?, row.get(3)?);
    let is_same = (content, author, at) == (entry.digest.clone(), entry.author.clone(), entry.at);
    Ok(is_same && entry.chained(previous) == entry.hash)
}

fn entry(row: &Row<'_>, at: usize) -> Result<AuthorityEntry, Fault> {
    let hash: Vec<u8> = row.get(at + 8)?;
    Ok(AuthorityEntry {
        number: unsigned(row.get(at)?)?,
        tenant: row.get(at + 1)?,
        space: row.get(at + 2)?,
        key: row.get(at + 3)?,
        version: unsigned(row.get(at + 4)?)?,
        digest: row.get(at + 5)?,
        author: row.get(at + 6)?,
        at: row.get(at + 7)?,
        hash: digest(&hash)?,
    })
}

/// Checks the record, and the versions against it.
pub(super) fn audit(connection: &Connection, report: &mut AuditReport) -> Result<(), Fault> {
    let sql = format!("SELECT {COLUMNS} FROM authority ORDER BY number");
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push(entry(row, 0)?);
    }
    report.take_authority(&entries);
    let sql = format!(
        "SELECT v.tenant, v.space, v.key, v.number, a.number IS NULL FROM versions AS v
         LEFT JOIN authority AS a ON a.tenant = v.tenant AND a.space = v.space AND a.key = v.key
           AND a.version = v.number
         WHERE v.space IN ({}) AND (a.number IS NULL OR a.digest IS NOT v.digest
           OR a.author <> v.author OR a.at <> v.at)
         UNION ALL
         SELECT a.tenant, a.space, a.key, a.version, NULL FROM authority AS a
         WHERE NOT EXISTS (SELECT 1 FROM versions AS v WHERE a.tenant = v.tenant
           AND a.space = v.space AND a.key = v.key AND a.version = v.number)",
        quoted()
    );
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (tenant, space, key): (String, String, String) =
            (row.get(0)?, row.get(1)?, row.get(2)?);
        let (version, is_unrecorded): (i64, Option<bool>) = (row.get(3)?, row.get(4)?);
        let message = AuditReport::unlike((&tenant, &space, &key), version, is_unrecorded);
        report.find(Damage::Authority, None, message);
    }
    Ok(())
}
