//! The schema, one file per version; a table says how many have been applied.

use super::authority;
use super::link::{Connected, trouble};
use crate::error::{Error, ErrorKind};

const MIGRATIONS: &[&str] = &[
    include_str!("migrations/1.sql"),
    include_str!("migrations/2.sql"),
    include_str!("migrations/3.sql"),
    include_str!("migrations/4.sql"),
    include_str!("migrations/5.sql"),
    include_str!("migrations/6.sql"),
    include_str!("migrations/7.sql"),
    include_str!("migrations/8.sql"),
    include_str!("migrations/9.sql"),
    include_str!("migrations/11.sql"),
];

/// Nodes that start at the same moment wait for each other here. Any number will do that no other
/// program takes: `HAFT` in ASCII.
const LOCK: &str = "SELECT pg_advisory_xact_lock(1212237396)";

/// The version of the schema that this program writes.
pub(super) const fn known() -> u32 {
    MIGRATIONS.len() as u32
}

/// Brings the schema up to date, in one transaction.
pub(super) async fn migrate(connected: &Connected) -> Result<(), Error> {
    let migrated = migrate_within(connected).await;
    let end = if migrated.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = connected.run(end).await.map_err(|error| trouble(&error));
    migrated.and(ended)
}

async fn migrate_within(connected: &Connected) -> Result<(), Error> {
    let run = async |sql: &str| connected.run(sql).await.map_err(|error| trouble(&error));
    run("BEGIN").await?;
    run(LOCK).await?;
    run("CREATE TABLE IF NOT EXISTS haft_schema (version bigint NOT NULL)").await?;
    let rows = connected.query("SELECT max(version) FROM haft_schema", &[]).await;
    let rows = rows.map_err(|error| trouble(&error))?;
    let version: Option<i64> = rows.first().and_then(|row| row.get(0));
    let applied = usize::try_from(version.unwrap_or(0)).map_err(Error::corrupt)?;
    if applied > MIGRATIONS.len() {
        let known = MIGRATIONS.len();
        let context = format!(
            "the database has schema version {applied}; this haft knows versions up to {known}"
        );
        return Err(Error::new(ErrorKind::NewerSchema, context));
    }
    for (number, migration) in MIGRATIONS.iter().enumerate().skip(applied) {
        run(migration).await?;
        run(&format!("INSERT INTO haft_schema (version) VALUES ({})", number + 1)).await?;
    }
    if applied < MIGRATIONS.len() {
        authority::fill(connected).await?;
    }
    Ok(())
}
