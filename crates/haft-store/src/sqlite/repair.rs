//! Writes the rows beside the logs of a database file anew, where they are not what the logs say.

use std::path::Path;

use rusqlite::{Connection, params};

use super::audit::{CALLS, Calls, complete, file_findings, fold, look, stored_sessions};
use super::claim::Claim;
use super::connection::{self, database_error};
use super::journal::Log;
use super::mark::{self, Mark};
use super::{Fault, append};
use crate::audit::{
    AuditReport, CallRow, Damage, Difference, Fold, RepairChange, RepairError, RepairReport,
};
use crate::error::{Error, ErrorKind};
use crate::examine::LossPolicy;
use crate::key::{id_bytes, number};

pub(crate) fn repair(directory: &Path, loss: LossPolicy) -> Result<RepairReport, RepairError> {
    let path = directory.join("haft.db");
    if std::fs::metadata(&path).map_or(true, |found| found.len() == 0) {
        let context = format!("there is no store in `{}`", directory.display());
        return Err(Error::new(ErrorKind::WrongFile, context).into());
    }
    let claim = Claim::take(directory)?;
    let mut report = RepairReport::default();
    if loss == LossPolicy::Accept
        && let Some(missing) = mark::forget(&claim.database)?
    {
        report
            .changes
            .push(RepairChange { session: None, message: format!("accepted: {missing}") });
    }
    let mut connection = connection::writer(&claim.database)?;
    require_repairable(&connection)?;
    let during = |error: rusqlite::Error| RepairError::from(database_error(&error));
    let transaction = connection.transaction().map_err(during)?;
    let rebuilt = rebuild(&transaction, &mut report).map_err(Error::from)?;
    let mut mark = Mark::open(&transaction, &claim.database)?;
    if rebuilt {
        mark.count(&transaction).map_err(during)?;
    }
    transaction.commit().map_err(during)?;
    if rebuilt {
        // A mark that is behind says less, and nothing wrong.
        drop(mark.committed());
    }
    Ok(report)
}

/// Refuses what a repair would not help. An index that is damaged may make more look damaged than
/// is, so that it is built anew first, and taken back if that does not help.
fn require_repairable(connection: &Connection) -> Result<(), RepairError> {
    let during = |error: rusqlite::Error| RepairError::from(database_error(&error));
    let has_damage = !file_findings(connection)?.is_empty();
    connection.execute_batch("SAVEPOINT looking").map_err(during)?;
    if has_damage {
        // Where the tables themselves are damaged this fails, and the look below says what is.
        drop(connection.execute_batch("REINDEX"));
    }
    let report = look(connection, AuditReport::default())?;
    let is_repairable = report.findings.iter().all(|finding| finding.damage == Damage::Derived);
    let end = match is_repairable {
        true => "RELEASE looking",
        false => "ROLLBACK TO looking; RELEASE looking",
    };
    connection.execute_batch(end).map_err(during)?;
    if is_repairable { Ok(()) } else { Err(RepairError::Broken(report)) }
}

/// Writes what differs; returns whether anything did.
fn rebuild(connection: &Connection, report: &mut RepairReport) -> Result<bool, Fault> {
    let before = connection.total_changes();
    let mut statement = connection.prepare(CALLS)?;
    let mut calls = Calls::read(&mut statement)?;
    for (stored, log) in stored_sessions(connection)? {
        report.sessions += 1;
        let stored = complete(connection, stored, log.key, &mut calls)?;
        let folded = fold(connection, &stored, &log).map_err(|fault| Error::corrupt(fault.0))?;
        let differences = folded.differences(&stored);
        if differences.is_empty() {
            continue;
        }
        for difference in &differences {
            mend(connection, &log, &folded, difference)?;
            let (session, message) = (Some(stored.session), difference.message());
            report.changes.push(RepairChange { session, message });
        }
        // Whoever goes on with the session finds out what there is to do.
        append::wake(connection, log.key, 0, 0)?;
    }
    for table in ["calls", "wakes", "snapshots"] {
        let sql = format!(
            "DELETE FROM {table} WHERE session <> 0 AND session NOT IN (SELECT key FROM sessions)"
        );
        let n = connection.execute(&sql, [])?;
        if n > 0 {
            let message = format!("{n} rows of `{table}` belonged to sessions that are not there");
            report.changes.push(RepairChange { session: None, message });
        }
    }
    Ok(connection.total_changes() != before)
}

fn mend(
    connection: &Connection,
    log: &Log,
    folded: &Fold,
    difference: &Difference,
) -> rusqlite::Result<()> {
    match difference {
        Difference::Session(_) => {
            let sql = "UPDATE sessions SET status = ?2, agent = ?3, parent = ?4, opened_by = ?5,
                         config_seq = ?6 WHERE key = ?1";
            let parent = folded.parent.map(|parent| id_bytes(parent.bits()));
            let (status, agent) = (folded.status.as_str(), folded.agent.as_deref());
            connection.prepare_cached(sql)?.execute(params![
                log.key,
                status,
                agent,
                parent,
                folded.opened_by,
                number(folded.config_seq)
            ])?;
        }
        Difference::Call(call, _) => {
            let id = id_bytes(call.bits());
            let sql = "DELETE FROM calls WHERE session = ?1 AND call = ?2";
            connection.prepare_cached(sql)?.execute(params![log.key, id])?;
            if let Some(row) = folded.calls.get(call) {
                insert(connection, log.key, &id, row)?;
            }
        }
        Difference::Snapshot => {
            let forget = "UPDATE sessions SET snapshot = NULL WHERE key = ?1";
            connection.prepare_cached(forget)?.execute([log.key])?;
            let sql = "DELETE FROM snapshots WHERE session = ?1";
            connection.prepare_cached(sql)?.execute([log.key])?;
        }
    }
    Ok(())
}

fn insert(connection: &Connection, key: i64, id: &[u8], row: &CallRow) -> rusqlite::Result<()> {
    let sql = "INSERT INTO calls (session, call, tool, stage, class, decided, updated_at, tenant,
                 round, kind, since, expires_at, retry_at, opened_by, told, custom,
                 unattended_since)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
    let decided = row.decided.as_ref().map(serde_json::to_string).transpose();
    let decided =
        decided.map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    let wait = row.wait.as_ref();
    let values = params![
        key,
        id,
        row.tool,
        row.stage,
        row.class,
        decided,
        row.updated_at,
        wait.map(|wait| wait.tenant.as_str()),
        wait.map(|wait| wait.round),
        wait.map(|wait| wait.kind.as_str()),
        wait.map(|wait| wait.since),
        wait.map(|wait| wait.expires_at),
        row.retry_at,
        wait.map(|wait| wait.opened_by.as_deref()),
        row.told,
        row.is_custom,
        row.unattended_since(),
    ];
    connection.prepare_cached(sql)?.execute(values).map(|_| ())
}
