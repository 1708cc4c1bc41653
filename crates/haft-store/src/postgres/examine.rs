//! Looks at a PostgreSQL database without changing it.

use std::time::{Duration, SystemTime};

use tokio_postgres::Row;

use super::address::Address;
use super::link::Link;
use super::work::{DELIVERIES, WAITING, standing};
use super::{column, pooler, schema};
use crate::error::Error;
use crate::examine::PostgresReport;

/// How long an answer is waited for.
const ANSWER_MAX: Duration = Duration::from_secs(10);

const SETTINGS: &str = "
    SELECT current_setting('server_version'), pg_is_in_recovery(),
           current_setting('transaction_read_only'), current_setting('synchronous_commit'),
           current_setting('fsync'), (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
           inet_server_port(), has_schema_privilege(current_schema(), 'CREATE'),
           to_regclass('haft_schema') IS NOT NULL";

pub(crate) async fn examine(url: &str) -> Result<PostgresReport, Error> {
    let address = Address::parse(url)?.answering_within(ANSWER_MAX);
    pooler::require_own_sessions(&address).await?;
    let link = Link::new(&address);
    link.connected().await?;
    let asked = now_ms();
    let rows = link.query(SETTINGS, &[]).await?;
    // The server looked at its clock about half way between question and answer.
    let ours = asked.midpoint(now_ms());
    let Some(row) = rows.first() else { return Err(Error::corrupt("there are no settings")) };
    let applied = match column(row, 8)? {
        true => link.query("SELECT max(version) FROM haft_schema", &[]).await?,
        false => Vec::new(),
    };
    let applied: Option<i64> = applied.first().map_or(Ok(None), |row| column(row, 0))?;
    let applied = applied.map(u32::try_from).transpose().map_err(Error::corrupt)?;
    let known = schema::known();
    let standing = match applied == Some(known) {
        true => {
            let waiting = link.query(WAITING, &[]).await?;
            Some(standing(&waiting, &link.query(DELIVERIES, &[]).await?)?)
        }
        false => None,
    };
    let at: i64 = column(row, 5)?;
    Ok(PostgresReport {
        version: column(row, 0)?,
        schema: applied,
        schema_known: known,
        read_only: read_only(row)?,
        synchronous_commit: column(row, 3)?,
        fsync: column(row, 4)?,
        clock_ahead_ms: at - ours,
        between: between(row, &address)?,
        standing,
    })
}

fn read_only(row: &Row) -> Result<Option<String>, Error> {
    let (is_standby, is_read_only): (bool, String) = (column(row, 1)?, column(row, 2)?);
    let may_create: Option<bool> = column(row, 7)?;
    Ok(if is_standby {
        Some("the server is a standby, which takes no writes".to_owned())
    } else if is_read_only == "on" {
        Some("transactions are read-only for this user (`transaction_read_only`)".to_owned())
    } else if may_create != Some(true) {
        Some("this user may create no tables in the schema that it uses".to_owned())
    } else {
        None
    })
}

/// What stands in between shows in a server that listens elsewhere than where one connects to.
fn between(row: &Row, address: &Address) -> Result<Option<String>, Error> {
    let port: Option<i32> = column(row, 6)?;
    let elsewhere = port.filter(|port| !address.has_port(*port));
    Ok(elsewhere.map(|port| {
        format!("the server itself listens on port {port}: a pooler, a proxy or a port mapping")
    }))
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.ok().and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or(0)
}
