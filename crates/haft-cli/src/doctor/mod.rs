//! `haft doctor`: looks at an installation, and says what is wrong and what to do about it.
//!
//! Each area has a file with functions that return findings; nothing is made or changed, but for a
//! file that tries the disk and is removed again.

mod clock;
mod configuration;
mod data;
mod database;
mod disk;
mod finding;
mod listener;
mod program;
mod providers;
mod sandbox;
mod server;
mod store;
mod waiting;

use std::path::Path;

use serde_json::json;

use self::clock::Clocks;
use self::finding::{Finding, Status};
use self::server::Running;
use crate::Verdict;
use crate::api::Reach;
use crate::serve;
use crate::terminal::{Paint, Tone, say, say_json, say_prose};

/// Checks the installation: says what is wrong and what to do about it. Nothing is changed. Exits
/// with 1 if something must be fixed; warnings are no failure.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    reach: Reach,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let findings = runtime.block_on(examined(&args.reach));
    runtime.shutdown_background();
    let n_problems = count(&findings, Status::Problem);
    match args.reach.wants_json() {
        true => say_json(&report(&findings))?,
        false => tell(&findings),
    }
    Ok(if n_problems == 0 { Verdict::Holds } else { Verdict::Broken })
}

/// Looks at everything, one area after the other.
async fn examined(reach: &Reach) -> Vec<Finding> {
    let clocks = Clocks::start();
    let mut findings = vec![program::version()];
    let (configured, settings) = configuration::examine();
    findings.extend(configured);
    let running = server::find(reach).await;
    match reach.server() {
        // The rest is on the machine of that server.
        Some(_) => {
            findings.extend(server::examine(&running));
            findings.extend(server::waiting(&running).await);
        }
        None => {
            findings.extend(here(reach, settings.as_deref(), &running).await);
            findings.extend(sandbox::examine());
            findings.extend(providers::examine(reach.models()).await);
        }
    }
    findings.push(clocks.compared());
    findings
}

/// Looks at what is on this machine: the data directory, the store, the server over them.
async fn here(reach: &Reach, settings: Option<&serve::Args>, running: &Running) -> Vec<Finding> {
    let place = reach.place();
    let mut findings = directory(&place.data);
    match &place.database_url {
        Some(url) => findings.extend(database::examine(url).await),
        None => findings.extend(store::examine(&place.data)),
    }
    findings.extend(server::examine(running));
    findings.extend(listener::examine(settings, running.note()));
    findings
}

fn directory(path: &Path) -> Vec<Finding> {
    let (is_there, mut findings) = data::examine(path);
    if is_there {
        findings.extend(disk::examine(path));
        findings.push(data::sealing_key(path));
        findings.extend(data::policy(path));
        findings.extend(clock::of_files(path));
    }
    findings
}

fn count(findings: &[Finding], status: Status) -> usize {
    findings.iter().filter(|finding| finding.status == status).count()
}

fn report(findings: &[Finding]) -> serde_json::Value {
    json!({
        "ok": count(findings, Status::Problem) == 0,
        "version": env!("CARGO_PKG_VERSION"),
        "problems": count(findings, Status::Problem),
        "warnings": count(findings, Status::Warning),
        "findings": findings,
    })
}

/// How wide the columns before the sentences are.
const STATUS_WIDTH: usize = 9;
const NAME_WIDTH: usize = 24;

fn tell(findings: &[Finding]) {
    let paint = Paint::stdout();
    let hang = STATUS_WIDTH + NAME_WIDTH;
    for finding in findings {
        let (word, tone) = match finding.status {
            Status::Ok => ("ok", Tone::Good),
            Status::Warning => ("warning", Tone::Warn),
            Status::Problem => ("problem", Tone::Bad),
        };
        let gap = " ".repeat(STATUS_WIDTH - word.len());
        let (name, message) = (&finding.name, &finding.message);
        let word = paint.paint(tone, word);
        say_prose(&format!("{word}{gap}{name:<NAME_WIDTH$}{message}"), hang);
        if let Some(fix) = &finding.fix {
            say_prose(&format!("{:hang$}fix: {fix}", ""), hang + 5);
        }
    }
    let (n_problems, n_warnings) =
        (count(findings, Status::Problem), count(findings, Status::Warning));
    say("");
    say(&match n_problems {
        0 => format!("nothing has to be fixed; warnings: {n_warnings}"),
        _ => format!("problems: {n_problems}; warnings: {n_warnings}"),
    });
}
