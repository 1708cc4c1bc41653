//! Whether the database makes a write durable now.

use super::Postgres;
use crate::error::{Error, ErrorKind};

/// One of a few rows, so that a write that hangs does not hold up the next one.
const WRITE: &str = "
    INSERT INTO probes (id, at)
    VALUES (pg_backend_pid() % 64, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
    ON CONFLICT (id) DO UPDATE SET at = excluded.at";

impl Postgres {
    /// Writes a row and waits for its commit, on a connection of its own.
    pub(crate) async fn check_writable(&self) -> Result<(), Error> {
        for writer in &self.writers {
            writer.require_alive()?;
        }
        let written = self.probe.query(WRITE, &[]).await;
        written.map(|_| ()).map_err(|error| match error.kind() {
            ErrorKind::ReadOnly => Error::new(
                ErrorKind::ReadOnly,
                format!("PostgreSQL takes no writes from this user: {error}"),
            ),
            _ => error,
        })
    }
}
