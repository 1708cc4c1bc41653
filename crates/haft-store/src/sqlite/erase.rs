//! Content that goes for ever, in SQLite: from the tables, and from the pages that were theirs.

use rusqlite::{Connection, params};

use super::content::parts;
use crate::content::Erasure;

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
    if erasures.is_empty() {
        return Ok(());
    }
    // Pages that become free are overwritten too, which costs a write of each and so is not the
    // rule. It counts from when it is prepared: a cached statement would say nothing.
    connection.execute_batch("PRAGMA secure_delete = ON")?;
    let erased = erasures.iter().try_for_each(|erasure| erase_one(connection, erasure));
    connection.execute_batch("PRAGMA secure_delete = FAST")?;
    erased
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
    // The row stays, empty and under no name: SQLite fills the gap of a row that goes with its
    // neighbours, and may leave a copy of them where they were, which nothing could erase.
    let mut unused = connection.prepare_cached(
        "UPDATE blobs SET digest = randomblob(32), body = x'' WHERE digest = ?1
           AND NOT EXISTS (SELECT 1 FROM versions WHERE versions.digest = ?1)
           AND NOT EXISTS (SELECT 1 FROM artifacts WHERE artifacts.digest = ?1)",
    )?;
    digests.iter().try_for_each(|digest| unused.execute([digest]).map(|_| ()))
}
