//! Content that goes for ever, in PostgreSQL.

use super::column;
use super::content::{Failed, parts};
use super::link::Connected;
use crate::content::Erasure;
use crate::request::noted_place;

const FORGET: &str = "
    WITH meant AS (
      SELECT number, digest FROM versions
      WHERE tenant = $1 AND space = $2 AND key = $3 AND digest IS NOT NULL
        AND number BETWEEN $4 AND coalesce($5::bigint, (SELECT max(number) - 1 FROM versions
          WHERE tenant = $1 AND space = $2 AND key = $3))
      FOR UPDATE)
    UPDATE versions SET digest = NULL FROM meant
    WHERE tenant = $1 AND space = $2 AND key = $3 AND versions.number = meant.number
    RETURNING meant.digest";

/// Of two that erase the last two references to a blob, the second must see what the first did.
const LOCK: &str = "SELECT 1 FROM blobs WHERE digest = ANY($1) ORDER BY digest FOR UPDATE";

const REMOVE: &str = "
    DELETE FROM blobs WHERE digest = ANY($1)
      AND NOT EXISTS (SELECT 1 FROM versions WHERE versions.digest = blobs.digest)
      AND NOT EXISTS (SELECT 1 FROM artifacts WHERE artifacts.digest = blobs.digest)";

/// The answers of requests that wrote to a place may hold what was written; that they were answered
/// stays.
const FORGET_ANSWERS: &str = "
    UPDATE requests SET note = NULL WHERE step = '' AND note IS NOT NULL AND id IN (
      SELECT id FROM requests WHERE step LIKE 'put %' AND position($1 in note) > 0)";

/// Erases within the transaction that is open. Whoever writes the same bytes meanwhile either holds
/// them by its reference, which is waited for and then seen, or finds them gone when it refers to
/// them: the foreign key fails it, and it puts them again.
pub(super) async fn erase(connected: &Connected, erasures: &[Erasure]) -> Result<(), Failed> {
    let mut digests: Vec<Vec<u8>> = Vec::new();
    for erasure in erasures {
        let (tenant, space, key) = parts(&erasure.place);
        let (first, last) = erasure.versions.range();
        let forgotten = connected.query(FORGET, &[&tenant, &space, &key, &first, &last]).await?;
        for row in &forgotten {
            digests.push(column(row, 0)?);
        }
        connected.execute(FORGET_ANSWERS, &[&noted_place(space, key)]).await?;
    }
    if !digests.is_empty() {
        connected.query(LOCK, &[&digests]).await?;
        connected.execute(REMOVE, &[&digests]).await?;
    }
    Ok(())
}
