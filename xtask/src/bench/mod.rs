//! `cargo xtask bench`: ours and the peers' in one run on one machine, and the page that says so.
//!
//! Peers come from their registries into `target/bench`. One that cannot be installed or does not
//! run is named on the page with the reason; no figure is ever taken from another run.

mod database;
mod findings;
mod ours;
mod page;
mod peers;
mod plot;
mod servers;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use self::database::Database;
use self::findings::{Findings, Load, Machine, Measured, Named};
use self::ours::Ours;
use self::peers::Peers;
use self::servers::{Recipe, Server, in_turns};
use crate::Verdict;
use crate::programs::{self, Program};

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Extent {
    /// Small sizes, to see that everything runs: what it writes goes to `target/bench`.
    Brief,
    Whole,
}

/// The sizes along which costs are watched.
#[derive(Clone, Copy)]
struct Sizes {
    tools: &'static [u64],
    histories: &'static [u64],
    parked: &'static [u64],
    rounds: u32,
    /// For how long a server is loaded each time.
    load_seconds: f64,
    load_rounds: u32,
}

impl Extent {
    const fn sizes(self) -> Sizes {
        match self {
            Self::Brief => Sizes {
                tools: &[10, 100],
                histories: &[10, 100],
                parked: &[2_000],
                rounds: 1,
                load_seconds: 0.5,
                load_rounds: 1,
            },
            Self::Whole => Sizes {
                tools: &[10, 100, 1_000, 10_000],
                histories: &[10, 100, 1_000, 10_000, 100_000],
                parked: &[2_000, 10_000, 100_000, 1_000_000],
                rounds: 5,
                load_seconds: 2.0,
                load_rounds: 3,
            },
        }
    }
}

/// What the peers are, or run in.
const INSTALLED: [Program; 6] = [
    Program::Bubblewrap,
    Program::Fd,
    Program::Npm,
    Program::Postgresql,
    Program::PythonVenv,
    Program::Ripgrep,
];

pub(crate) fn run(root: &Path, extent: Extent) -> anyhow::Result<Verdict> {
    for program in INSTALLED {
        if programs::install(program)? == Verdict::Wanting {
            return Ok(Verdict::Wanting);
        }
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let scratch = target.join("bench");
    fs::create_dir_all(&scratch).with_context(|| format!("making `{}`", scratch.display()))?;
    let ours = Ours::build(root, &target, &scratch)?;
    let peers = Peers::install(root, &scratch);
    let database = Database::start()?;
    if extent == Extent::Whole {
        Machine::come_to_rest();
    }
    let findings = measure(&ours, &peers, &database, extent.sizes())?;
    drop(database);
    let docs = match extent {
        Extent::Brief => scratch.join("docs"),
        Extent::Whole => root.join("docs"),
    };
    page::write(&docs, &findings)?;
    println!("written: {}", docs.join("benchmarks.md").display());
    Ok(Verdict::Clean)
}

fn measure(
    ours: &Ours,
    peers: &Peers,
    database: &Database,
    sizes: Sizes,
) -> anyhow::Result<Findings> {
    let mut findings = Findings::new(Machine::this());
    findings.servers = serving(ours, peers, sizes);
    findings.proxies = proxying(ours, peers, sizes);
    findings.durable = ours.durable(database, sizes)?;
    findings.durable.extend(peers.durable(database)?);
    findings.history = vec![ours.history(sizes.histories)];
    findings.history.extend(peers.history(&findings.durable));
    findings.dispatch = ours.dispatch();
    findings.dispatch.extend(peers.dispatch(sizes.tools));
    findings.parked = ours.parked(sizes.parked);
    findings.nodes = ours.nodes(database)?;
    findings.searches = ours.searches();
    findings.peers = peers.versions();
    Ok(findings)
}

fn serving(ours: &Ours, peers: &Peers, sizes: Sizes) -> Vec<Named<Measured<Vec<Load>>>> {
    let recipes = [vec![peers.bare_server()], ours.servers(), peers.servers()].concat();
    let servers: Vec<_> = recipes.iter().map(started).collect();
    in_turns(&peers.load(), &servers, sizes.load_rounds, sizes.load_seconds)
}

/// Both stand before one bare server.
fn proxying(ours: &Ours, peers: &Peers, sizes: Sizes) -> Vec<Named<Measured<Vec<Load>>>> {
    let behind = match Server::start(&peers.bare_server()) {
        Ok(behind) => behind,
        Err(reason) => return vec![Named::new("the server behind them", Err(reason))],
    };
    let recipes = [peers.bare_proxy(behind.url()), ours.proxy(behind.url())];
    let proxies: Vec<_> = recipes.iter().map(started).collect();
    in_turns(&peers.load(), &proxies, sizes.load_rounds, sizes.load_seconds)
}

fn started(recipe: &Recipe) -> Named<Measured<Server>> {
    Named::new(recipe.name, Server::start(recipe))
}
