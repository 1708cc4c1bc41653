//! Content that goes for ever, in SQLite: from the tables, and from the pages that were theirs.

use rusqlite::{Connection, params};

use super::content::{blank_blobs, parts};
use crate::content::Erasure;
use crate::request::noted_place;

/// The versions that are meant.
macro_rules! of_the_meant {
    ($sql:literal) => {
        concat!(
            $sql,
            " WHERE tenant = ?1 AND space = ?2 AND key = ?3 AND digest IS NOT NULL
                AND number BETWEEN ?4 AND coalesce(?5, (SELECT max(number) - 1 FROM versions
                  WHERE tenant = ?1 AND space = ?2 AND key = ?3))"
        )
    };
}

pub(super) fn erase(connection: &Connection, erasures: &[Erasure]) -> rusqlite::Result<()> {
    erasures.iter().try_for_each(|erasure| erase_one(connection, erasure))
}

fn erase_one(connection: &Connection, erasure: &Erasure) -> rusqlite::Result<()> {
    let (tenant, space, key) = parts(&erasure.place);
    let (first, last) = erasure.versions.range();
    let meant = params![tenant, space, key, first, last];
    let digests: Vec<Vec<u8>> = connection
        .prepare_cached(of_the_meant!("SELECT DISTINCT digest FROM versions"))?
        .query_map(meant, |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    connection
        .prepare_cached(of_the_meant!("UPDATE versions SET digest = NULL"))?
        .execute(meant)?;
    blank_blobs(connection, &digests)?;
    forget_answers(connection, space, key)
}

/// The answers of requests that wrote to a place may hold what was written; that they were answered
/// stays.
fn forget_answers(connection: &Connection, space: &str, key: &str) -> rusqlite::Result<()> {
    let sql = "UPDATE requests SET note = NULL WHERE step = '' AND note IS NOT NULL AND id IN (
                 SELECT id FROM requests WHERE step LIKE 'put %' AND instr(note, ?1) > 0)";
    connection.prepare_cached(sql)?.execute([noted_place(space, key)]).map(|_| ())
}
