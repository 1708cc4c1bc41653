//! The PostgreSQL database of `--database-url`.

use haft_store::{ErrorKind, PostgresReport};

use super::finding::Finding;
use super::waiting;

const NAME: &str = "database";

/// The oldest major version of PostgreSQL that is tested.
const MAJOR_MIN: u32 = 13;

/// By how much the two clocks may differ.
const CLOCK_MAX_MS: u64 = 2_000;

pub(super) async fn examine(url: &str) -> Vec<Finding> {
    let report = match haft_store::examine_postgres(url).await {
        Ok(report) => report,
        Err(error) => {
            let said = error.to_string();
            let fix = match error.kind() {
                _ if said.contains("connection pooler") => {
                    "connect to PostgreSQL itself, or have the pooler keep sessions \
                     (`pool_mode = session`)"
                }
                ErrorKind::Gone => "start it, and see that its address and port are reachable",
                _ => "see that --database-url names the database and that it takes the user",
            };
            return vec![Finding::problem(NAME, format!("it cannot be used: {said}"), fix)];
        }
    };
    let mut findings = vec![version(&report), schema(&report), writable(&report)];
    findings.extend([durable(&report), between(&report), clock(&report)]);
    findings.extend(report.standing.as_ref().map(waiting::told));
    findings
}

fn version(report: &PostgresReport) -> Finding {
    let version = &report.version;
    let major = version.split(['.', ' ']).next().and_then(|major| major.parse::<u32>().ok());
    let message = format!("PostgreSQL {version} answers");
    match major {
        Some(0..MAJOR_MIN) => {
            Finding::warning(NAME, message, format!("use PostgreSQL {MAJOR_MIN} or newer"))
        }
        _ => Finding::ok(NAME, message),
    }
}

fn schema(report: &PostgresReport) -> Finding {
    let (name, known) = ("database.schema", report.schema_known);
    match report.schema {
        None => Finding::ok(name, "it holds no store yet; `haft serve` makes it"),
        Some(found) if found > known => Finding::problem(
            name,
            format!("it has format {found}; this haft knows formats up to {known}"),
            "use the version of `haft` that wrote it, or a newer one",
        ),
        Some(found) if found < known => {
            Finding::ok(name, format!("format {found}; the next start brings it to {known}"))
        }
        Some(found) => Finding::ok(name, format!("format {found}")),
    }
}

fn writable(report: &PostgresReport) -> Finding {
    let name = "database.writable";
    match &report.read_only {
        None => Finding::ok(name, "it takes writes from this user"),
        Some(why) => Finding::problem(
            name,
            why.clone(),
            "connect to the primary (`target_session_attrs=read-write`), as a user that may \
             create tables",
        ),
    }
}

fn durable(report: &PostgresReport) -> Finding {
    let name = "database.durability";
    let PostgresReport { synchronous_commit, fsync, .. } = report;
    let message = format!("synchronous_commit = {synchronous_commit}, fsync = {fsync}");
    if fsync != "on" {
        let fix = "switch `fsync` on: without it a crash can damage the whole database";
        return Finding::problem(name, message, fix);
    }
    match synchronous_commit.as_str() {
        "off" => Finding::problem(
            name,
            message,
            "set `synchronous_commit` to `on`: what was acknowledged can be lost in a crash",
        ),
        _ => Finding::ok(name, message),
    }
}

fn between(report: &PostgresReport) -> Finding {
    let name = "database.pooler";
    match &report.between {
        None => Finding::ok(name, "no sign of a pooler in between"),
        Some(why) => Finding::warning(
            name,
            why.clone(),
            "connect to PostgreSQL itself, or to a pooler in session mode",
        ),
    }
}

fn clock(report: &PostgresReport) -> Finding {
    let name = "database.clock";
    let ahead = report.clock_ahead_ms;
    let message = format!("its clock differs from this machine's by {ahead} ms");
    match ahead.unsigned_abs() > CLOCK_MAX_MS {
        true => Finding::warning(name, message, "let NTP or chrony set both clocks"),
        false => Finding::ok(name, message),
    }
}
