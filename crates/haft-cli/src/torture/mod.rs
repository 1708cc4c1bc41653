//! `haft torture`: a real process is killed while it works, again and again, and afterwards what
//! happened in the world is compared with what the log says.
//!
//! Effects are counted outside the store, in a file of their own. People are played by the
//! process itself: it approves what waits, and settles what is in doubt after looking at the
//! world, as a careful person would. What it was acknowledged it writes down before going on.
//! Some of its tools run out of time, are told to stop or lose their connection, after they took
//! effect or before.

mod duel;
mod faults;
mod judge;
mod life;
mod world;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;

pub(crate) use duel::{DuelArgs, duel};
pub(crate) use life::{LifeArgs, live};

use crate::Verdict;
use crate::terminal::{LiveLine, say, say_json};
use judge::Findings;
use world::World;

/// Kills a real process again and again while it works.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often to kill.
    #[arg(long, default_value_t = 50)]
    kills: u32,
    /// Where the random moments start from; the same seed gives the same plan.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A PostgreSQL database instead of an embedded store; it should be an empty one.
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// Where to work; a temporary directory when left out.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// How many processes share the database at a time; more than one needs PostgreSQL. Beside
    /// being killed, they are then frozen until others have taken over, and let go again.
    #[arg(
        long,
        default_value_t = 1,
        requires_if("2", "database_url"),
        requires_if("3", "database_url")
    )]
    nodes: u32,
    /// Prints the findings as JSON.
    #[arg(long)]
    json: bool,
}

/// How a life ends.
#[derive(Debug, Clone, Copy)]
enum Death {
    /// At the nth boundary between deciding, storing, telling and doing.
    AtBoundary(u32),
    /// Some time after it began, by SIGKILL.
    After(Duration),
    /// It may finish its work.
    Natural,
}

/// The whole run, for people and scripts.
#[derive(Debug, Serialize)]
struct Report {
    /// Whether all that is promised holds, and enough happened to say so.
    holds: bool,
    seed: u64,
    kills_at_boundaries: u32,
    kills_at_random: u32,
    freezes: u32,
    findings: Findings,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let scratch = tempfile::tempdir().context("making a temporary directory")?;
    let directory = args.data.clone().unwrap_or_else(|| scratch.path().to_owned());
    let mut report = Report {
        holds: false,
        seed: args.seed,
        kills_at_boundaries: 0,
        kills_at_random: 0,
        freezes: 0,
        findings: Findings::default(),
    };
    let mut dice = Dice(args.seed | 1);
    let mut line = LiveLine::on_stderr();
    let mut told = |report: &Report| {
        let kills = report.kills_at_boundaries + report.kills_at_random;
        line.show(&format!("killed {kills} times; {} rounds in all", args.kills));
    };
    match args.nodes {
        0 | 1 => one_after_another(args, &directory, &mut dice, &mut report, &mut told)?,
        _ => side_by_side(args, &directory, &mut dice, &mut report, &mut told)?,
    }
    line.show("left in peace until everything has settled");
    one_life(args, &directory, Death::Natural)?;
    line.show("comparing the world with the log");
    let world = World::read(&directory)?;
    report.findings = judge::judge(&life::place(&directory, args.database_url.as_ref()), &world)?;
    report.holds = report.findings.holds();
    line.clear();
    print(&report, args.json)?;
    Ok(if report.holds { Verdict::Holds } else { Verdict::Broken })
}

/// One process at a time: killed at a boundary, or after a while, by turns.
fn one_after_another(
    args: &Args,
    directory: &Path,
    dice: &mut Dice,
    report: &mut Report,
    told: &mut dyn FnMut(&Report),
) -> anyhow::Result<()> {
    for n_kills in 0..args.kills {
        told(report);
        let death = match n_kills % 2 {
            0 => Death::AtBoundary(1 + dice.below(60)),
            _ => Death::After(Duration::from_millis(u64::from(20 + dice.below(180)))),
        };
        one_life(args, directory, death)?;
        match death {
            Death::AtBoundary(_) => report.kills_at_boundaries += 1,
            Death::After(_) | Death::Natural => report.kills_at_random += 1,
        }
    }
    Ok(())
}

/// Several processes over one database; one at a time is killed and replaced, or frozen until
/// its lease is over and others have taken its sessions.
fn side_by_side(
    args: &Args,
    directory: &Path,
    dice: &mut Dice,
    report: &mut Report,
    told: &mut dyn FnMut(&Report),
) -> anyhow::Result<()> {
    let born = |dice: &mut Dice, n_born: u32| {
        // Every third one dies by itself, at a boundary, while the others go on.
        let death = match n_born % 3 {
            2 => Death::AtBoundary(10 + dice.below(200)),
            _ => Death::After(Duration::MAX),
        };
        spawn(args, directory, death)
    };
    let mut nodes = Nodes(Vec::new());
    for n_born in 0..args.nodes {
        nodes.0.push(born(dice, n_born)?);
    }
    for n_round in 0..args.kills {
        told(report);
        std::thread::sleep(Duration::from_millis(u64::from(60 + dice.below(240))));
        for node in &mut nodes.0 {
            if has_died(node)? {
                report.kills_at_boundaries += 1;
                *node = born(dice, n_round)?;
            }
        }
        let node = &mut nodes.0[dice.below(args.nodes) as usize];
        if n_round % FREEZE_EVERY == FREEZE_EVERY - 1 {
            signal(node, "STOP")?;
            std::thread::sleep(life::LEASE_TTL + Duration::from_millis(700));
            signal(node, "CONT")?;
            report.freezes += 1;
            continue;
        }
        kill(node)?;
        report.kills_at_random += 1;
        *node = born(dice, n_round)?;
    }
    nodes.0.iter_mut().try_for_each(kill)
}

/// Returns whether a process has died at its boundary.
fn has_died(node: &mut Child) -> anyhow::Result<bool> {
    match node.try_wait().context("looking at a process")? {
        None => Ok(false),
        Some(status) => match status.code() {
            None => Ok(true),
            Some(code) => anyhow::bail!("a process ended by itself with exit code {code}"),
        },
    }
}

/// The processes at work; none outlives this one, whatever goes wrong.
struct Nodes(Vec<Child>);

impl Drop for Nodes {
    fn drop(&mut self) {
        for node in &mut self.0 {
            // Killed already, more often than not.
            node.kill().unwrap_or_default();
        }
    }
}

/// Every so many rounds a process is frozen and not killed, because waiting for a lease to run
/// out takes long.
const FREEZE_EVERY: u32 = 10;

fn kill(node: &mut Child) -> anyhow::Result<()> {
    node.kill().context("killing a process")?;
    match node.wait().context("waiting for a process")?.code() {
        None => Ok(()),
        Some(code) => anyhow::bail!("a process ended by itself with exit code {code}"),
    }
}

#[expect(clippy::disallowed_methods, reason = "freezes the processes that this program started")]
fn signal(node: &Child, name: &str) -> anyhow::Result<()> {
    let status = Command::new("kill").args(["-s", name, &node.id().to_string()]).status();
    let status = status.context("sending a signal")?;
    anyhow::ensure!(status.success(), "a process is gone that nobody killed");
    Ok(())
}

/// Runs the process until it dies as planned, or, when it may, until everything is settled.
fn one_life(args: &Args, directory: &Path, death: Death) -> anyhow::Result<()> {
    let mut child = spawn(args, directory, death)?;
    if let Death::After(wait) = death {
        std::thread::sleep(wait);
        child.kill().context("killing the process")?;
    }
    let status = child.wait().context("waiting for the process")?;
    match (status.code(), death) {
        (Some(0), Death::Natural) | (None, Death::AtBoundary(_) | Death::After(_)) => Ok(()),
        (Some(code), _) => anyhow::bail!("the process ended by itself with exit code {code}"),
        (None, Death::Natural) => anyhow::bail!("the process was killed by someone else"),
    }
}

#[expect(clippy::disallowed_methods, reason = "the process that is killed is this very program")]
fn spawn(args: &Args, directory: &Path, death: Death) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new(program);
    command.arg("torture-life").arg("--directory").arg(directory);
    command.arg("--nodes").arg(args.nodes.to_string());
    if let Some(url) = &args.database_url {
        command.arg("--database-url").arg(url);
    }
    match death {
        Death::AtBoundary(nth) => {
            command.arg("--doomed").arg("--die-at").arg(nth.to_string());
        }
        Death::After(_) => {
            command.arg("--doomed");
        }
        Death::Natural => {}
    }
    command.stdin(Stdio::null()).spawn().context("starting a life")
}

fn print(report: &Report, json: bool) -> anyhow::Result<()> {
    if json {
        return say_json(&serde_json::to_value(report)?);
    }
    let kills = report.kills_at_boundaries + report.kills_at_random;
    if report.freezes > 0 {
        say(&format!("frozen past its lease and let go {} times", report.freezes));
    }
    say(&format!(
        "killed {kills} times ({} at boundaries, {} at random), seed {}",
        report.kills_at_boundaries, report.kills_at_random, report.seed
    ));
    say(&report.findings.to_string());
    Ok(())
}

/// A small generator: what is random here must be repeatable.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from(self.0 % u64::from(limit.max(1))).unwrap_or(0)
    }
}
