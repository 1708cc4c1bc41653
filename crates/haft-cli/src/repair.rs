//! `haft repair`: makes what follows from the logs anew.

use haft_store::{
    AuditFinding, LossPolicy, RepairChange, RepairError, RepairReport, repair_postgres,
    repair_sqlite,
};
use serde_json::json;

use crate::Verdict;
use crate::place::Place;
use crate::terminal::{say, say_json};
use crate::trouble::{Code, Trouble};

/// Makes anew what follows from the logs, where it is not what they say: calls, waits, retries,
/// what a session is doing, snapshots and indexes. Prints what was changed.
///
/// Logs and contents are never changed: where they are damaged, nothing is, and a backup helps. The
/// embedded store must not be in use; nodes on PostgreSQL may go on.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Goes on with an embedded store that has lost writes which were acknowledged. What is missing
    /// stays missing: calls that were decided or run since are asked about or run again.
    #[arg(long)]
    accept_loss: bool,
    /// Prints JSON, for programs.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let accept = if args.accept_loss { LossPolicy::Accept } else { LossPolicy::Refuse };
    let repaired = match &args.place.database_url {
        None => repair_sqlite(&args.place.data, accept),
        Some(_) if args.accept_loss => {
            let what = "--accept-loss is for the embedded store";
            return Err(Trouble::new(Code::BadArguments, what).next("leave it out").into());
        }
        Some(url) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(repair_postgres(url))
        }
    };
    match repaired {
        Ok(report) => told(args, &report),
        Err(RepairError::Store(error)) => Err(args.place.unopened(&error)),
        Err(RepairError::Broken(report)) => Err(refused(&report.findings).into()),
    }
}

fn told(args: &Args, report: &RepairReport) -> anyhow::Result<Verdict> {
    if args.json {
        let shown = |change: &RepairChange| {
            let RepairChange { session, message } = change;
            json!({ "session": session, "message": message })
        };
        let changes: Vec<_> = report.changes.iter().map(shown).collect();
        say_json(&json!({ "sessions": report.sessions, "changes": changes }))?;
        return Ok(Verdict::Holds);
    }
    for RepairChange { session, message } in &report.changes {
        say(&match session {
            Some(session) => format!("{session}: {message}"),
            None => message.clone(),
        });
    }
    eprintln!("{} sessions looked at, {} changes made", report.sessions, report.changes.len());
    Ok(Verdict::Holds)
}

fn refused(findings: &[AuditFinding]) -> Trouble {
    for AuditFinding { damage, session, message } in findings {
        say(&match session {
            Some(session) => format!("{session}: {}: {message}", damage.as_str()),
            None => format!("{}: {message}", damage.as_str()),
        });
    }
    Trouble::new(Code::BadStore, "the store cannot be repaired, and nothing was changed")
        .why("logs or contents are damaged, which nothing else says again")
        .next("keep a copy of the store as it is, and restore a backup")
}
