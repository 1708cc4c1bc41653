//! The embedded store: whether it opens, its format, and whether its file is whole.

use std::path::Path;
use std::time::Duration;

use haft_store::{ErrorKind, SqliteCheck, SqliteReport};

use super::disk::readable;
use super::finding::Finding;
use super::waiting;

const NAME: &str = "store";
const CHECK: &str = "store.check";

/// How long the check of the whole file may take.
const CHECK_MAX: Duration = Duration::from_secs(60);

pub(super) fn examine(data: &Path) -> Vec<Finding> {
    let is_empty = std::fs::metadata(data.join("haft.db")).map_or(true, |found| found.len() == 0);
    let traces = ["haft.mark", "sealing-key"];
    if let Some(trace) = traces.iter().find(|trace| is_empty && data.join(trace).exists()) {
        return vec![Finding::problem(
            NAME,
            format!(
                "`haft.db` is missing or empty, and `{trace}` belongs to a store that was here"
            ),
            "put `haft.db` and `haft.db-wal` back, or restore a backup; `haft explain bad_store` \
             says more",
        )];
    }
    if is_empty {
        return vec![Finding::ok(NAME, "there is no store yet; `haft serve` makes it")];
    }
    match haft_store::examine_sqlite(data, CHECK_MAX) {
        Ok(report) => {
            let mut findings = vec![opened(&report), checked(&report.check)];
            findings.extend(report.standing.as_ref().map(waiting::told));
            findings
        }
        Err(error) => {
            let fix = match error.kind() {
                ErrorKind::NewerSchema => "use the version of `haft` that wrote it, or a newer one",
                ErrorKind::ReadOnly => "give the file to this user",
                _ => "restore `haft.db` from a backup, or name another directory with --data",
            };
            vec![Finding::problem(NAME, format!("the store cannot be opened: {error}"), fix)]
        }
    }
}

fn opened(report: &SqliteReport) -> Finding {
    let SqliteReport { schema, schema_known, bytes, .. } = report;
    let size = readable(*bytes);
    match schema < schema_known {
        true => Finding::ok(
            NAME,
            format!("SQLite, {size}, format {schema}; the next start brings it to {schema_known}"),
        ),
        false => Finding::ok(NAME, format!("SQLite, {size}, format {schema}")),
    }
}

fn checked(check: &SqliteCheck) -> Finding {
    match check {
        SqliteCheck::Whole => Finding::ok(CHECK, "SQLite's quick_check finds the file whole"),
        SqliteCheck::Damaged { findings } => Finding::problem(
            CHECK,
            format!("`haft.db` is damaged: {}", findings.join("; ")),
            "stop `haft serve`, keep a copy of the directory, and restore it from a backup; \
             `haft audit verify` says which sessions are whole",
        ),
        SqliteCheck::CutOff => Finding::warning(
            CHECK,
            format!(
                "the check was cut off after {} s; until then it found nothing",
                CHECK_MAX.as_secs()
            ),
            "run `sqlite3 haft.db 'PRAGMA quick_check'` while no server runs",
        ),
    }
}
