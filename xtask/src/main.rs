//! The project's own chores: `cargo xtask test`, `faults`, `tidy`, `bench`, `docs` and `dist`.
//!
//! This file only reads the arguments and turns a result into an exit code. Exit codes: 0 all is
//! well, 1 something was found or failed, 2 the arguments make no sense.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the terminal is all xtask has")]

mod bench;
mod browser;
mod clients;
mod dist;
mod document;
mod faults;
mod features;
mod guides;
mod metadata;
mod outside;
mod programs;
mod requirements;
mod rust_file;
mod steps;
mod tidy;
mod transcript;
mod tree;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bench::Extent;
use steps::Scope;

const USAGE: &str = "\
usage: cargo xtask <chore>

  test         every check and every test, the quick ones first
  test fast    the same without the steps that need more than the toolchain
  test from S  the same from the step S on, for whoever has just mended it
  faults       the fault table: the real server with full disks, lost files, databases that do not
               write, kills and retries, against a counter of effects outside; about 2 minutes
  faults --long [NAME]  the same with many rounds each; NAME: only faults whose name contains it
  guides NAME  run the documents whose path contains NAME, as `test` runs all of them
  features     the crate `haft` with each set of features that a user may choose
  outside      a crate outside the workspace that depends on `haft`
  tidy         what a machine can check about the source: edges, sizes, licences, documents
  bench        ours and the peers in one run, written to docs/benchmarks.md
  bench brief  the same with small sizes, written to target/bench/docs
  docs         write docs/requirements.md from the tests
  docs cli     write docs/reference/cli.md from the commands; builds the binary
  dist         build the release for an old glibc, make every artifact in target/dist, install
               and use each, and write the table of docs/install.md
  dist --binary PATH [--out DIR]       make the artifacts from a binary that is there
  dist test --binary PATH [--out DIR]  the same, then install each artifact and use it";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let Some(chore) = Chore::parse(&args) else {
        eprintln!("error: no chore is called `{}`\n\n{USAGE}", args.join(" "));
        return ExitCode::from(2);
    };
    match chore.run(&root()) {
        Ok(Verdict::Clean) => ExitCode::SUCCESS,
        Ok(Verdict::Wanting) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, PartialEq)]
enum Chore {
    Bench(Extent),
    CliReference,
    Dist(dist::Order),
    Docs,
    Faults(faults::Order),
    Features,
    Guides(String),
    Help,
    Outside,
    Test(Scope),
    TestFrom(String),
    Tidy,
}

/// What a chore concluded, as opposed to an error, which kept it from concluding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    Clean,
    /// The chore has printed what is wrong.
    Wanting,
}

impl Chore {
    fn parse(args: &[&str]) -> Option<Chore> {
        match args {
            ["bench"] => Some(Chore::Bench(Extent::Whole)),
            ["bench", "brief"] => Some(Chore::Bench(Extent::Brief)),
            ["dist", rest @ ..] => dist::Order::parse(rest).map(Chore::Dist),
            ["docs"] => Some(Chore::Docs),
            ["faults", rest @ ..] => faults::Order::parse(rest).map(Chore::Faults),
            ["features"] => Some(Chore::Features),
            ["outside"] => Some(Chore::Outside),
            ["guides", only] => Some(Chore::Guides((*only).to_owned())),
            ["docs", "cli"] => Some(Chore::CliReference),
            ["help" | "--help" | "-h"] => Some(Chore::Help),
            ["test"] => Some(Chore::Test(Scope::All)),
            ["test", "fast"] => Some(Chore::Test(Scope::Fast)),
            ["test", "from", step] => Some(Chore::TestFrom((*step).to_owned())),
            ["tidy"] => Some(Chore::Tidy),
            _ => None,
        }
    }

    fn run(&self, root: &Path) -> anyhow::Result<Verdict> {
        match self {
            Chore::Bench(extent) => bench::run(root, *extent),
            Chore::CliReference => transcript::write_cli_reference(root),
            Chore::Dist(order) => dist::run(root, order),
            Chore::Docs => requirements::write_page(root).map(|()| Verdict::Clean),
            Chore::Faults(order) => faults::run(root, order),
            Chore::Features => features::run(root),
            Chore::Outside => outside::run(root),
            Chore::Guides(only) => guides::run(root, only),
            Chore::Help => {
                println!("{USAGE}");
                Ok(Verdict::Clean)
            }
            Chore::Test(scope) => steps::run(root, *scope, None),
            Chore::TestFrom(step) => steps::run(root, Scope::All, Some(step)),
            Chore::Tidy => tidy::run(root),
        }
    }
}

/// The workspace that cargo runs us for, or the current directory without cargo.
///
/// Read when run and not by `env!` when built: checkouts that share a target directory share the
/// binary, and it would go on looking at the checkout that built it.
fn root() -> PathBuf {
    let workspace = |xtask: OsString| Path::new(&xtask).parent().map(Path::to_path_buf);
    let manifest_dir = std::env::var_os("CARGO_MANIFEST_DIR");
    manifest_dir.and_then(workspace).unwrap_or_else(|| PathBuf::from("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chore_in_the_usage_is_understood() {
        assert_eq!(Chore::parse(&["test"]), Some(Chore::Test(Scope::All)));
        assert_eq!(Chore::parse(&["test", "fast"]), Some(Chore::Test(Scope::Fast)));
        let from = Chore::TestFrom("clients".to_owned());
        assert_eq!(Chore::parse(&["test", "from", "clients"]), Some(from));
        assert_eq!(Chore::parse(&["tidy"]), Some(Chore::Tidy));
        assert_eq!(Chore::parse(&["bench"]), Some(Chore::Bench(Extent::Whole)));
        assert_eq!(Chore::parse(&["bench", "brief"]), Some(Chore::Bench(Extent::Brief)));
        assert_eq!(Chore::parse(&["docs"]), Some(Chore::Docs));
        let short = Chore::Faults(faults::Order::default());
        assert_eq!(Chore::parse(&["faults"]), Some(short));
        assert!(matches!(Chore::parse(&["faults", "--long"]), Some(Chore::Faults(_))));
        assert_eq!(Chore::parse(&["features"]), Some(Chore::Features));
        assert_eq!(Chore::parse(&["outside"]), Some(Chore::Outside));
        assert!(matches!(Chore::parse(&["dist", "test"]), Some(Chore::Dist(_))));
        assert_eq!(Chore::parse(&["guides", "x"]), Some(Chore::Guides("x".to_owned())));
        assert_eq!(Chore::parse(&["docs", "cli"]), Some(Chore::CliReference));
        assert_eq!(Chore::parse(&["--help"]), Some(Chore::Help));
    }

    #[test]
    fn arguments_nobody_knows_are_refused() {
        for args in [&[][..], &["tset"], &["test", "slow"], &["tidy", "fast"], &["dist", "tset"]] {
            assert_eq!(Chore::parse(args), None, "{args:?}");
        }
    }
}
