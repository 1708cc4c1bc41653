//! `cargo xtask faults`: the real server under every fault that it promises to survive.
//!
//! Each row of the table is a fault on one store. A row works with a tool whose effects a process
//! outside of Haft counts in a file (`counter.py`), writes down what the server acknowledged
//! (`ledger.rs`), causes its fault, sends again what was not acknowledged as clients do, kills the
//! server once more, and compares (`judge.rs`). A program of its own and not a test of `it`: it
//! prints a table, takes arguments, and is run by a step of its own.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a broken assumption fails the row")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the table is what it is for")]

#[path = "../it/breakage.rs"]
mod breakage;
#[path = "../../../haft-store/tests/it/cluster.rs"]
#[expect(dead_code, reason = "shared with the store's tests, which use more of it")]
mod cluster;
mod databases;
mod disks;
mod judge;
mod ledger;
mod place;
#[path = "../../../haft-store/tests/it/pooler.rs"]
mod pooler;
#[path = "../it/reading.rs"]
mod reading;
mod requests;
#[path = "../it/serving.rs"]
#[expect(dead_code, reason = "shared with the tests of the binary, which use more of it")]
mod serving;
mod stage;
mod table;
mod tools;
mod torture;

use std::process::ExitCode;

use cluster::Cluster;
use stage::{Extent, Fault};
use table::{Row, Verdict};

/// Every fault; those of one store are caused one after the other.
fn faults() -> Vec<Fault> {
    [disks::faults(), databases::faults(), tools::faults(), requests::faults(), torture::faults()]
        .concat()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_long = arguments.iter().any(|argument| argument == "--long");
    let names: Vec<&String> = arguments.iter().filter(|it| !it.starts_with("--")).collect();
    let extent = if is_long { Extent::Long } else { Extent::Short };
    let is_wanted = |fault: &Fault| names.iter().all(|name| fault.name.contains(name.as_str()));
    let faults: Vec<Fault> = faults().into_iter().filter(is_wanted).collect();
    if faults.is_empty() {
        eprintln!("error: no fault is called so; they are:");
        self::faults().iter().for_each(|fault| eprintln!("  {}", fault.name));
        return ExitCode::from(2);
    }
    println!("{}", table::head());
    let rows = std::thread::scope(|scope| {
        let on_sqlite = scope.spawn(|| on_sqlite(&faults, extent));
        let on_postgresql = scope.spawn(|| on_postgresql(&faults, extent));
        [on_sqlite, on_postgresql].map(|rows| rows.join().expect("rows catch their own panics"))
    });
    let rows = rows.concat();
    println!("\n{}", table::summary(&rows));
    let held = rows.iter().all(|row| row.verdict() != Verdict::Broken);
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn on_sqlite(faults: &[Fault], extent: Extent) -> Vec<Row> {
    let mut rows = Vec::new();
    for fault in faults {
        if let Some(cause) = fault.on_sqlite {
            rows.push(shown(stage::row(fault.name, None, extent, cause)));
        }
    }
    rows
}

fn on_postgresql(faults: &[Fault], extent: Extent) -> Vec<Row> {
    let wanted: Vec<_> =
        faults.iter().filter_map(|fault| Some((fault.name, fault.on_postgresql?))).collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    let cluster = Cluster::private();
    let rows = wanted.into_iter();
    rows.map(|(name, cause)| shown(stage::row(name, Some(&cluster), extent, cause))).collect()
}

fn shown(row: Row) -> Row {
    println!("{row}");
    row
}
