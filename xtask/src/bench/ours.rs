//! What Haft does: its own benchmarks, run as a user would run them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::bail;
use serde_json::{Value, json};

use super::Sizes;
use super::database::Database;
use super::findings::{Measured, Named, Point, figures, number, said};
use super::servers::Recipe;
use crate::metadata;

/// How many processes over one database are measured.
const NODES_MAX: u32 = 3;

pub(super) struct Ours {
    root: PathBuf,
    haft: PathBuf,
    /// The server with one trivial tool.
    adder: PathBuf,
    /// On the disk that is measured.
    scratch: PathBuf,
}

impl Ours {
    /// Builds what is measured; `HAFT` names another binary to measure.
    pub(super) fn build(root: &Path, target: &Path, scratch: &Path) -> anyhow::Result<Self> {
        let (built, adder) = build_release(root, target)?;
        let haft = std::env::var_os("HAFT").map_or(built, PathBuf::from);
        Ok(Self { root: root.to_owned(), haft, adder, scratch: scratch.to_owned() })
    }

    /// Over MCP, with and without a record.
    pub(super) fn servers(&self) -> Vec<Recipe> {
        let directory = self.emptied("haft-mcp");
        vec![
            self.adder("Haft, nothing recorded", "add", vec!["direct".into()]),
            self.adder("Haft, SQLite", "add", vec!["sqlite".into(), directory]),
        ]
    }

    pub(super) fn proxy(&self, url: String) -> Recipe {
        let directory = self.emptied("haft-mcp-mounted");
        self.adder("Haft, SQLite", "peer_add", vec!["mounted".into(), directory, url])
    }

    fn adder(&self, name: &'static str, tool: &'static str, after: Vec<String>) -> Recipe {
        Recipe { name, tool, program: Ok(vec![self.adder.clone()]), after }
    }

    fn emptied(&self, name: &str) -> String {
        let directory = self.scratch.join(name);
        // Nothing is there the first time.
        drop(fs::remove_dir_all(&directory));
        directory.display().to_string()
    }

    fn bench(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.haft);
        command.args(["bench"]).args(arguments).arg("--json");
        command.arg("--dir").arg(&self.scratch);
        command
    }

    pub(super) fn durable(
        &self,
        database: &Database,
        sizes: Sizes,
    ) -> anyhow::Result<Vec<Named<Measured<Value>>>> {
        let url = database.fresh("haft")?;
        let on = |name: &str, place: &[&str]| Named::new(name, self.both(place, sizes.rounds));
        Ok(vec![on("Haft, SQLite", &[]), on("Haft, PostgreSQL", &["--database-url", &url])])
    }

    /// Steps and round trips, in the members that the peers' answers have too.
    fn both(&self, place: &[&str], rounds: u32) -> Measured<Value> {
        let rounds = rounds.to_string();
        let of = |what: &str| {
            figures(&mut self.bench(&[&[what, "--rounds", &rounds][..], place].concat()))
        };
        let (steps, resolve) = (of("steps")?, of("resolve")?);
        Ok(json!({
            "steps_per_second": number(&steps, "steps_per_second")?,
            "raw_commits_per_second": number(&steps, "raw_commits_per_second")?,
            "ratio": number(&steps, "ratio")?,
            "round_trips_per_second": number(&resolve, "round_trips_per_second")?,
        }))
    }

    pub(super) fn history(&self, histories: &[u64]) -> Named<Measured<Vec<Point>>> {
        let cost = |events: &u64| {
            let found = figures(&mut self.bench(&["revival", "--events", &events.to_string()]))?;
            Ok(Point { size: *events as f64, cost: number(&found, "long_us")? / 1e3 })
        };
        Named::new("Haft, SQLite", histories.iter().map(cost).collect())
    }

    pub(super) fn parked(&self, counts: &[u64]) -> Vec<Measured<Value>> {
        let measure =
            |count: &u64| figures(&mut self.bench(&["parked", "--count", &count.to_string()]));
        counts.iter().map(measure).collect()
    }

    /// One process after the other is added, each with callers of its own.
    pub(super) fn nodes(&self, database: &Database) -> anyhow::Result<Measured<Vec<Point>>> {
        let url = database.fresh("nodes")?;
        Ok((1..=NODES_MAX).map(|nodes| self.together(&url, nodes)).collect())
    }

    fn together(&self, url: &str, nodes: u32) -> Measured<Point> {
        let measure =
            || figures(&mut self.bench(&["resolve", "--rounds", "3", "--database-url", url]));
        let answers: Vec<_> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..nodes).map(|_| scope.spawn(measure)).collect();
            running.into_iter().map(|node| node.join()).collect()
        });
        let mut total = 0.0;
        for answer in answers {
            let answer = answer.map_err(|_| "a measurement panicked".to_owned())??;
            total += number(&answer, "round_trips_per_second")?;
        }
        Ok(Point { size: f64::from(nodes), cost: total })
    }

    /// Our lifecycle and the floor beside it, as the benchmark prints them.
    pub(super) fn dispatch(&self) -> Vec<Named<Measured<Vec<Point>>>> {
        let told = self.cargo_bench(&["-p", "haft-runtime", "--bench", "dispatch"]);
        let column = |at: usize| told.clone().and_then(|text| points(&text, at));
        let floor = "no framework: a map, the same schema check, serde";
        vec![Named::new("Haft", column(2)), Named::new(floor, column(1))]
    }

    pub(super) fn searches(&self) -> Measured<Vec<String>> {
        let told = self.cargo_bench(&["-p", "haft-sandbox"])?;
        Ok(told
            .lines()
            .filter(|line| line.contains(" against ") || line.contains("memory"))
            .map(str::to_owned)
            .collect())
    }

    fn cargo_bench(&self, arguments: &[&str]) -> Measured<String> {
        said(metadata::cargo().args(["bench", "--quiet"]).args(arguments).current_dir(&self.root))
    }
}

/// One command for both: two would settle on different features, and compile nearly everything
/// twice.
fn build_release(root: &Path, target: &Path) -> anyhow::Result<(PathBuf, PathBuf)> {
    let mut build = metadata::cargo();
    build.args(["build", "--release", "-p", "haft-cli", "--bin", "haft"]);
    build.args(["-p", "haft-mcp", "--example", "adder"]);
    if !build.current_dir(root).status()?.success() {
        bail!("the binary cannot be built");
    }
    let release = target.join("release");
    Ok((release.join("haft"), release.join("examples/adder")))
}

/// Reads a column of times from a table whose first column is the size.
fn points(table: &str, column: usize) -> Measured<Vec<Point>> {
    let rows = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let size = words.first()?.parse().ok()?;
        Some(Point { size, cost: microseconds(words.get(column)?)? })
    });
    let found: Vec<Point> = rows.collect();
    if found.is_empty() { Err("its answer is no table".to_owned()) } else { Ok(found) }
}

fn microseconds(text: &str) -> Option<f64> {
    let units = [("ns", 1e-3), ("µs", 1.0), ("ms", 1e3), ("s", 1e6)];
    units.iter().find_map(|(unit, times)| {
        text.strip_suffix(unit)?.parse::<f64>().ok().map(|number| number * times)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_times_is_read_by_its_columns() {
        let table =
            "   tools       floor        haft   ratio\n      10   540.00ns      1.46µs   2.70x\n";
        assert_eq!(points(table, 2), Ok(vec![Point { size: 10.0, cost: 1.46 }]));
        assert_eq!(points(table, 1), Ok(vec![Point { size: 10.0, cost: 0.54 }]));
        assert!(points("nothing", 1).is_err());
    }
}
