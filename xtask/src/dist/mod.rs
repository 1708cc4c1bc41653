//! `cargo xtask dist`: everything that is released, made from one binary and the registries.
//!
//! One module per artifact. Each takes the [`Release`] and returns the files that it has written;
//! the same binary gives the same bytes, for every time in an artifact is that of the commit.

mod build;
mod commands;
mod crates;
mod deb;
mod image;
mod linkage;
mod npm;
mod page;
mod release;
mod root;
mod sbom;
mod sums;
mod tarball;
mod trial;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;

use self::release::Release;
use crate::Verdict;
use crate::metadata;
use crate::programs::{self, Program};

/// What all artifacts say about Haft.
const SUMMARY: &str = "The durable, permissioned tool runtime for LLM agents.";
const LICENCE: &str = "MIT OR Apache-2.0";
const LICENCE_FILES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// What to make, and from what.
#[derive(Debug, PartialEq)]
pub(crate) struct Order {
    /// The binary to package; without one a release is built.
    pub(crate) binary: Option<PathBuf>,
    /// Where the artifacts go; `target/dist` without it.
    pub(crate) out: Option<PathBuf>,
    pub(crate) extent: Extent,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Extent {
    /// Only the artifacts are made.
    Package,
    /// Each artifact is also installed into nothing, and used.
    Trial,
}

impl Order {
    /// Reads what follows `cargo xtask dist`. A release that is built here is always tried.
    pub(crate) fn parse(args: &[&str]) -> Option<Order> {
        let (asked, mut rest) = match args {
            ["test", rest @ ..] => (Extent::Trial, rest),
            rest => (Extent::Package, rest),
        };
        let mut order = Order { binary: None, out: None, extent: asked };
        while let [flag, value, others @ ..] = rest {
            let place = match *flag {
                "--binary" => &mut order.binary,
                "--out" => &mut order.out,
                _ => return None,
            };
            if place.replace(PathBuf::from(value)).is_some() {
                return None;
            }
            rest = others;
        }
        if order.binary.is_none() {
            order.extent = Extent::Trial;
        }
        rest.is_empty().then_some(order)
    }
}

/// One way to install Haft, and the files to download for it.
#[derive(Debug)]
struct Artifact {
    kind: Kind,
    files: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Wheel,
    Npm,
    Deb,
    Tarball,
    Image,
    Sbom,
}

pub(crate) fn run(root: &Path, order: &Order) -> anyhow::Result<Verdict> {
    for program in [
        Program::PythonVenv,
        Program::Npm,
        Program::Binutils,
        Program::Buildah,
        Program::Mmdebstrap,
        Program::DebianKeyring,
    ] {
        if programs::install(program)? == Verdict::Wanting {
            return Ok(Verdict::Wanting);
        }
    }
    let release = Release::prepare(root, order)?;
    println!("dist: haft {} needs {}", release.version, release.linkage);
    crates::check(&release)?;
    let artifacts = make(&release)?;
    sums::write(&release, &artifacts)?;
    let trials = match order.extent {
        Extent::Package => Vec::new(),
        Extent::Trial => trial::run(&release, &artifacts)?,
    };
    page::write(&release, &artifacts, &trials)?;
    fs::remove_dir_all(&release.work).context("deleting what the artifacts were packed from")?;
    Ok(Verdict::Clean)
}

/// The step of `cargo xtask test`: the binary that the tests have built, so that nothing is compiled
/// for it.
pub(crate) fn run_step(root: &Path) -> anyhow::Result<Verdict> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let mut build = metadata::cargo();
    build.args(["build", "-p", "haft-cli"]).current_dir(root);
    if !build.status().with_context(|| format!("starting {build:?}"))?.success() {
        return Ok(Verdict::Wanting);
    }
    let (binary, out) = (Some(target.join("debug/haft")), Some(target.join("dist-trial")));
    run(root, &Order { binary, out, extent: Extent::Trial })
}

fn make(release: &Release) -> anyhow::Result<Vec<Artifact>> {
    let single = |made: anyhow::Result<PathBuf>| made.map(|file| vec![file]);
    let mut artifacts = vec![
        timed(Kind::Wheel, || single(wheel::make(release)))?,
        timed(Kind::Npm, || npm::make(release))?,
        timed(Kind::Deb, || single(deb::make(release)))?,
        timed(Kind::Tarball, || single(tarball::make(release)))?,
        timed(Kind::Sbom, || single(sbom::make(release)))?,
    ];
    match image::start(release)? {
        Some(workshop) => artifacts.push(timed(Kind::Image, || single(workshop.make(release)))?),
        None => println!("dist: there will be no container image"),
    }
    Ok(artifacts)
}

fn timed(
    kind: Kind,
    make: impl FnOnce() -> anyhow::Result<Vec<PathBuf>>,
) -> anyhow::Result<Artifact> {
    let started = Instant::now();
    let files = make().with_context(|| format!("making the {}", kind.name()))?;
    println!("dist: made the {} in {:.1} s", kind.name(), started.elapsed().as_secs_f64());
    Ok(Artifact { kind, files })
}

/// Where the user's programs keep what can be made again.
fn cache() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    cache.unwrap_or_else(std::env::temp_dir).join("haft")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_names_a_binary_and_a_place_once_each() {
        let order = Order::parse(&["--binary", "b", "--out", "o"]).unwrap();
        assert_eq!(order.binary, Some(PathBuf::from("b")));
        assert_eq!(order.out, Some(PathBuf::from("o")));
        assert_eq!(order.extent, Extent::Package);
        assert_eq!(Order::parse(&["test", "--binary", "b"]).unwrap().extent, Extent::Trial);
        assert_eq!(Order::parse(&[]).unwrap().extent, Extent::Trial);
        for args in [&["--binary"][..], &["--out", "a", "--out", "b"], &["tset"], &["x", "y"]] {
            assert_eq!(Order::parse(args), None, "{args:?}");
        }
    }
}
