//! Power loss: the store's files as a disk may leave them at every moment of a real run.
//!
//! A process works on a store under `strace`. From the trace every state is rebuilt in which the
//! disk may be found if the power is lost at some moment: what was synced is there, of what was
//! not, anything may be. A kill cannot show that, because the kernel keeps what a dead process
//! wrote. Each state is opened, and nothing that was acknowledged by then may be missing.

#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "runs itself under strace")]

mod disk;
mod trace;

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use haft_core::SessionId;
use haft_store::Store;

use crate::backing::{Directory, runtime};
use crate::cluster::is_left_out;
use crate::driver::{Session, ann, approval, charge, ok};
use disk::{Dice, Disk, Survives};
use trace::Happening;

const WORKLOAD: &str = "HAFT_POWER_LOSS_WORKLOAD";
const DIRECTORY: &str = "HAFT_POWER_LOSS_DIRECTORY";

/// How many states are looked at; all that are made of one run when it is larger.
const STATES: &str = "HAFT_POWER_LOSS_STATES";
const STATES_IN_CI: usize = 300;

/// Who works.
#[derive(Debug, Clone, Copy)]
enum Workload {
    /// The store.
    Store,
    /// A table of one's own with `synchronous=NORMAL`, which is known to lose commits.
    Careless,
}

impl Workload {
    const fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Careless => "careless",
        }
    }
}

/// Not a test by itself: what the tests below run under `strace`.
#[test]
fn workload() {
    let (Ok(workload), Ok(directory)) = (std::env::var(WORKLOAD), std::env::var(DIRECTORY)) else {
        return;
    };
    let directory = PathBuf::from(directory);
    let mut told = File::create(directory.join("told")).unwrap();
    let data = directory.join("data");
    if workload == Workload::Store.name() {
        runtime().block_on(work_on_store(&data, &mut told));
    } else {
        work_carelessly(&data, &mut told);
    }
}

/// Several lives, each with sessions that go all the way; closing moves the log into the database.
async fn work_on_store(data: &Path, told: &mut File) {
    for _ in 0..3 {
        let store = Store::open_sqlite(data).unwrap();
        for _ in 0..2 {
            let mut session = Session::create(&store, "acme").await;
            tell(told, &session);
            let call = session.propose(&charge()).await;
            tell(told, &session);
            session.input_anywhere(approval(call, ann())).await.unwrap();
            tell(told, &session);
            session.input(haft_core::session::Input::Woken).await.unwrap();
            session.finish(call, ok("charged")).await;
            tell(told, &session);
        }
    }
}

fn tell(told: &mut File, session: &Session) {
    let line = format!("{} {}\n", session.id, session.head.seq);
    told.write_all(line.as_bytes()).unwrap();
}

fn work_carelessly(data: &Path, told: &mut File) {
    std::fs::create_dir_all(data).unwrap();
    let connection = rusqlite::Connection::open(data.join("careless.db")).unwrap();
    let settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
                    CREATE TABLE told (n INTEGER PRIMARY KEY);";
    connection.execute_batch(settings).unwrap();
    for n in 1..=20 {
        connection.execute("INSERT INTO told VALUES (?1)", [n]).unwrap();
        told.write_all(format!("{n}\n").as_bytes()).unwrap();
    }
}

/// Runs a workload under `strace` and returns what it did.
fn traced(workload: Workload) -> Vec<Happening> {
    let directory = Directory::new();
    let trace = directory.path().join("trace");
    let output = Command::new("strace")
        .args(["-f", "-y", "-xx", "-s", "16777216", "-e", trace::CALLS, "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "power_loss::workload"])
        .env(WORKLOAD, workload.name())
        .env(DIRECTORY, directory.path())
        .output()
        .expect("strace is not installed: run `cargo xtask test`, which installs it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let text = std::fs::read_to_string(trace).unwrap();
    trace::read(&text, &directory.path().join("data"), &directory.path().join("told"))
}

/// Opens states of a run and returns how many there were, and what is wrong with them.
fn lose_power_everywhere(
    happenings: &[Happening],
    seed: u64,
    check: impl Fn(&Path, &[&str]) -> Result<(), String>,
) -> (usize, Vec<String>) {
    let wanted = std::env::var(STATES).ok().and_then(|states| states.parse().ok());
    let wanted: usize = wanted.unwrap_or(STATES_IN_CI);
    let n_all = happenings.len() * Survives::EVERY.len();
    let rounds = wanted.div_ceil(n_all);
    let mut dice = Dice(seed | 1);
    let mut disk = Disk::default();
    let (mut told, mut n_states, mut wrong) = (Vec::new(), 0, Vec::new());
    for (n, happening) in happenings.iter().enumerate() {
        disk.happen(happening);
        if let Happening::Told(line) = happening {
            told.push(line.as_str());
        }
        for survives in Survives::EVERY.repeat(rounds) {
            if dice.below(n_all * rounds) >= wanted {
                continue;
            }
            let directory = Directory::new();
            disk.lose_power(survives, &mut dice, directory.path());
            n_states += 1;
            if let Err(trouble) = check(directory.path(), &told) {
                wrong.push(format!("after happening {n}, {survives:?} survives: {trouble}"));
            }
        }
    }
    (n_states, wrong)
}

/// Whatever was told is in its log, and every log is whole.
fn check_store(data: &Path, told: &[&str]) -> Result<(), String> {
    let store = Store::open_sqlite(data).map_err(|error| format!("it does not open: {error}"))?;
    runtime().block_on(async {
        for line in told {
            let (session, seq) = line.split_once(' ').ok_or("not a line of ours")?;
            let session: SessionId = session.parse().map_err(|_| "not an id of ours")?;
            let head =
                store.verify(session).await.map_err(|error| format!("{session}: {error}"))?;
            if head.seq < seq.parse().map_err(|_| "not a number")? {
                return Err(format!("{session} ends with entry {}, not with {seq}", head.seq));
            }
        }
        // It goes on working.
        Session::create(&store, "acme").await.propose(&charge()).await;
        Ok(())
    })
}

fn check_careless(data: &Path, told: &[&str]) -> Result<(), String> {
    let connection = rusqlite::Connection::open(data.join("careless.db")).unwrap();
    let sql = "SELECT count(*) FROM told";
    let n_kept = connection.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap_or(0);
    if (n_kept as usize) < told.len() { Err(format!("{n_kept} of {}", told.len())) } else { Ok(()) }
}

fn seed() -> u64 {
    let seed = 0x5eed_0001;
    println!("seed {seed}");
    seed
}

// S4-26, D4: nothing acknowledged is lost, whatever a disk forgets that was not told to remember.
#[test]
fn d4_nothing_acknowledged_is_lost_when_the_power_is() {
    if is_left_out() {
        println!("left out: power loss, because HAFT_TEST_FAST=1");
        return;
    }
    let happenings = traced(Workload::Store);
    let told = happenings.iter().filter(|h| matches!(h, Happening::Told(_))).count();
    assert_eq!(told, 24, "the workload was seen whole");
    let (n_states, wrong) = lose_power_everywhere(&happenings, seed(), check_store);
    println!("{n_states} states of {} happenings, {} wrong", happenings.len(), wrong.len());
    assert!(n_states >= STATES_IN_CI / 2, "too few states to prove anything: {n_states}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// The harness sees what it is there to see: a setting that a kill cannot tell from the right one.
#[test]
fn a_store_that_does_not_sync_its_commits_is_caught() {
    if is_left_out() {
        return;
    }
    let happenings = traced(Workload::Careless);
    let (n_states, wrong) = lose_power_everywhere(&happenings, seed(), check_careless);
    println!("{n_states} states, {} wrong", wrong.len());
    assert!(wrong.len() * 10 > n_states, "{} of {n_states} states are wrong", wrong.len());
}
