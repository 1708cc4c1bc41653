//! Writes the rows beside the logs of a PostgreSQL database anew, where they are not what the logs
//! say: a session at a time, under the lock of its row, so that nodes may be at work meanwhile.

use haft_core::SessionId;

use super::address::Address;
use super::audit::{Reading, audit};
use super::batch::id;
use super::link::{Connected, Link, Values, trouble};
use crate::audit::{
    CallRow, Damage, Difference, Fold, RepairChange, RepairError, RepairReport, StoredSession,
    WaitRow,
};
use crate::error::Error;
use crate::key::number;

const LOCK: &str = "SELECT 1 FROM sessions WHERE id = $1 FOR UPDATE";

const WAKE: &str = "
    INSERT INTO wakes (session, seq) VALUES ($1, 0)
    ON CONFLICT (session) DO UPDATE SET claimed_until = 0";

/// Tables of rows that follow from the log of a session.
const ORPHANS: [(&str, &str); 5] = [
    ("calls", "DELETE FROM calls WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE id = session)"),
    ("waits", "DELETE FROM waits WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE id = session)"),
    ("timers", "DELETE FROM timers WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE id = session)"),
    ("wakes", "DELETE FROM wakes WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE id = session)"),
    (
        "snapshots",
        "DELETE FROM snapshots WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE id = session)",
    ),
];

pub(crate) async fn repair(url: &str) -> Result<RepairReport, RepairError> {
    let found = audit(url, &std::collections::BTreeMap::new()).await?;
    if found.findings.iter().any(|finding| finding.damage != Damage::Derived) {
        return Err(RepairError::Broken(found));
    }
    let mut report = RepairReport::default();
    let address = Address::parse(url)?.for_migrations();
    let link = Link::new(&address);
    let connected = link.connected().await?;
    let reading = Reading(&connected);
    let mut after = None;
    loop {
        let page = reading.page(after.take()).await?;
        for session in &page {
            report.sessions += 1;
            mend_session(&connected, *session, &mut report).await?;
        }
        match page.last() {
            Some(last) => after = Some(*last),
            None => break,
        }
    }
    for (table, sql) in ORPHANS {
        let n = execute(&connected, sql, &[]).await?;
        if n > 0 {
            let message = format!("{n} rows of `{table}` belonged to sessions that are not there");
            report.changes.push(RepairChange { session: None, message });
        }
    }
    Ok(report)
}

async fn mend_session(
    connected: &Connected,
    session: SessionId,
    report: &mut RepairReport,
) -> Result<(), Error> {
    connected.run("BEGIN").await.map_err(|error| trouble(&error))?;
    let mended = mend_locked(connected, session).await;
    let end = if mended.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = connected.run(end).await.map_err(|error| trouble(&error));
    let changes = mended?;
    ended?;
    report.changes.extend(changes);
    Ok(())
}

async fn mend_locked(
    connected: &Connected,
    session: SessionId,
) -> Result<Vec<RepairChange>, Error> {
    let key = id(session.bits());
    connected.query(LOCK, &[&key]).await.map_err(|error| trouble(&error))?;
    let reading = Reading(connected);
    let Some(stored) = reading.session(session).await? else { return Ok(Vec::new()) };
    let folded = reading.fold(&stored).await?.map_err(|fault| Error::corrupt(fault.0))?;
    let mut changes = Vec::new();
    for difference in folded.differences(&stored) {
        mend(connected, &stored, &folded, &difference).await?;
        changes.push(RepairChange { session: Some(session), message: difference.message() });
    }
    if !changes.is_empty() {
        // Whoever goes on with the session finds out what there is to do.
        execute(connected, WAKE, &[&key]).await?;
    }
    Ok(changes)
}

async fn mend(
    connected: &Connected,
    stored: &StoredSession,
    folded: &Fold,
    difference: &Difference,
) -> Result<(), Error> {
    let key = id(stored.session.bits());
    match difference {
        Difference::Session(_) => {
            let sql = "UPDATE sessions SET status = $2, agent = $3, parent = $4, opened_by = $5,
                         config_seq = $6 WHERE id = $1";
            let parent = folded.parent.map(|parent| id(parent.bits()));
            let (opened_by, config) = (&folded.opened_by, number(folded.config_seq));
            let values: Values<'_> =
                &[&key, &folded.status.as_str(), &folded.agent, &parent, opened_by, &config];
            execute(connected, sql, values).await?;
        }
        Difference::Call(call, _) => {
            let call_key = id(call.bits());
            let both: Values<'_> = &[&key, &call_key];
            for sql in [
                "DELETE FROM calls WHERE session = $1 AND call = $2",
                "DELETE FROM waits WHERE session = $1 AND call = $2",
                "DELETE FROM timers WHERE session = $1 AND call = $2",
            ] {
                execute(connected, sql, both).await?;
            }
            if let Some(row) = folded.calls.get(call) {
                insert(connected, both, row).await?;
            }
        }
        Difference::Snapshot => {
            execute(connected, "DELETE FROM snapshots WHERE session = $1", &[&key]).await?;
        }
    }
    Ok(())
}

async fn insert(connected: &Connected, both: Values<'_>, row: &CallRow) -> Result<(), Error> {
    let decided = row.decided.as_ref().map(serde_json::to_string).transpose();
    let decided = decided.map_err(Error::corrupt)?;
    let sql =
        "INSERT INTO calls (session, call, tool, stage, class, decided, updated_at, told, custom)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let CallRow { tool, stage, class, updated_at, told, is_custom, .. } = row;
    let rest: Values<'_> = &[tool, stage, class, &decided, updated_at, told, is_custom];
    execute(connected, sql, &[both, rest].concat()).await?;
    if let Some(wait) = &row.wait {
        let sql =
            "INSERT INTO waits (session, call, round, kind, tenant, expires_at, since, opened_by,
                     unattended_since)
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        let round = i64::from(wait.round);
        let WaitRow { kind, tenant, expires_at, since, opened_by, .. } = wait;
        let unattended = row.unattended_since();
        let rest: Values<'_> = &[&round, kind, tenant, expires_at, since, opened_by, &unattended];
        execute(connected, sql, &[both, rest].concat()).await?;
    }
    if let Some(due_at) = &row.retry_at {
        let sql = "INSERT INTO timers (session, call, due_at) VALUES ($1, $2, $3)";
        let rest: Values<'_> = &[due_at];
        execute(connected, sql, &[both, rest].concat()).await?;
    }
    Ok(())
}

async fn execute(
    connected: &Connected,
    sql: &'static str,
    values: Values<'_>,
) -> Result<u64, Error> {
    connected.execute(sql, values).await.map_err(|error| trouble(&error))
}
