//! `cargo xtask test`: the steps, in the order in which they run.
//!
//! The steps are data. The quick ones come first, the first failure ends the run, and a step that
//! needs more than the toolchain says so, which is how `fast` knows to leave it out.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use anyhow::Context as _;

use crate::metadata::{self, Package};
use crate::programs::{self, Program};
use crate::{Verdict, browser, clients, dist, faults, features, guides, outside, tidy, transcript};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scope {
    All,
    /// The inner loop: nothing that needs more than the toolchain.
    Fast,
}

struct Step {
    name: &'static str,
    needs: Needs,
    applies: Applies,
    run: Run,
    /// What to do when the step fails.
    advice: &'static str,
}

/// What must be on the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Needs {
    Toolchain,
    /// Packages of the system or of a registry, such as a database or a browser.
    System,
}

#[derive(Clone, Copy)]
enum Applies {
    Always,
    /// Only when some crate has a target of this kind; cargo calls it an error when none has.
    WithTarget(&'static str),
}

#[derive(Clone, Copy)]
enum Run {
    Cargo {
        args: &'static [&'static str],
        env: &'static [(&'static str, &'static str)],
    },
    /// `cargo nextest run` where nextest is installed, these arguments to cargo where it is not.
    Nextest {
        otherwise: &'static [&'static str],
    },
    /// Installs what the tests start beside our own programs, where it is missing.
    Install(Program),
    /// The console in a real browser against the real binary.
    Browser,
    /// The official SDKs against the real binary.
    Clients,
    /// The short form of the fault table.
    Faults,
    /// The library with each set of features that a user may choose.
    Features,
    /// Every artifact of a release, made from the binary of the tests, installed and used.
    Dist,
    /// The commands in the guides and the examples.
    Guides,
    /// A crate outside the workspace.
    Outside,
    Tidy,
    Transcripts,
}

static STEPS: &[Step] = &[
    Step {
        name: "format",
        needs: Needs::Toolchain,
        applies: Applies::Always,
        run: Run::Cargo { args: &["fmt", "--all", "--check"], env: &[] },
        advice: "run `cargo fmt --all`",
    },
    Step {
        name: "tidy",
        needs: Needs::Toolchain,
        applies: Applies::Always,
        run: Run::Tidy,
        advice: "do what each finding says and run `cargo xtask tidy`",
    },
    Step {
        name: "clippy",
        needs: Needs::Toolchain,
        applies: Applies::Always,
        run: Run::Cargo {
            args: &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
            env: &[],
        },
        advice: "run `cargo clippy --workspace --all-targets` and follow it",
    },
    Step {
        name: "features",
        needs: Needs::Toolchain,
        applies: Applies::Always,
        run: Run::Features,
        advice: "run `cargo clippy -p haft --no-default-features --features SET`, or `cargo xtask features`",
    },
    Step {
        name: "postgresql",
        needs: Needs::System,
        applies: Applies::Always,
        run: Run::Install(Program::Postgresql),
        advice: "install PostgreSQL by hand, or leave it out with `cargo xtask test fast`",
    },
    Step {
        name: "pgbouncer",
        needs: Needs::System,
        applies: Applies::Always,
        run: Run::Install(Program::Pgbouncer),
        advice: "install PgBouncer by hand, or leave it out with `cargo xtask test fast`",
    },
    Step {
        name: "strace",
        needs: Needs::System,
        applies: Applies::Always,
        run: Run::Install(Program::Strace),
        advice: "install strace by hand, or leave it out with `cargo xtask test fast`",
    },
    Step {
        name: "python",
        needs: Needs::System,
        applies: Applies::Always,
        run: Run::Install(Program::PythonVenv),
        advice: "install python3-venv by hand, or leave it out with `cargo xtask test fast`",
    },
    Step {
        name: "tests",
        needs: Needs::Toolchain,
        applies: Applies::Always,
        run: Run::Nextest { otherwise: &["test", "--workspace", "--lib", "--bins", "--tests"] },
        advice: "run one test alone with `cargo test -p CRATE TEST_NAME`",
    },
    Step {
        name: "faults",
        needs: Needs::System,
        applies: Applies::Always,
        run: Run::Faults,
        advice: "play one fault alone with `cargo xtask faults NAME`; the program is crates/haft-cli/tests/faults",
    },
    Step {
        name: "npm",
        needs: Needs::System,
        applies: Applies::Always,
        run: Run::Install(Program::Npm),
        advice: "install Node.js and npm by hand, or leave them out with `cargo xtask test fast`",
    },
    Step {
        name: "clients",
        needs: Needs::System,
        applies: Applies::Always,
        run: Run::Clients,
        advice: "run one conversation alone with `pytest -k NAME` below crates/haft-server/tests/sdk, or `node --test --test-name-pattern=NAME` below sdk-ts",
    },
    Step {
        name: "chromium",
        needs: Needs::System,
        applies: Applies::Always,
        run: Run::Install(Program::Chromium),
        advice: "install chromium by hand, or leave it out with `cargo xtask test fast`",
    },
    Step {
        name: "browser",
        needs: Needs::System,
        applies: Applies::Always,
        run: Run::Browser,
        advice: "run one test alone with `node --test --test-name-pattern=NAME .` below crates/haft-server/tests/browser",
    },
    Step {
        name: "dist",
        needs: Needs::System,
        applies: Applies::Always,
        run: Run::Dist,
        advice: "run it alone with `cargo xtask dist test --binary target/debug/haft`",
    },
    Step {
        name: "curl",
        needs: Needs::System,
        applies: Applies::Always,
        run: Run::Install(Program::Curl),
        advice: "install curl by hand, or leave it out with `cargo xtask test fast`",
    },
    Step {
        name: "jq",
        needs: Needs::System,
        applies: Applies::Always,
        run: Run::Install(Program::Jq),
        advice: "install jq by hand, or leave it out with `cargo xtask test fast`",
    },
    Step {
        name: "guides",
        needs: Needs::System,
        applies: Applies::Always,
        run: Run::Guides,
        advice: "run one document alone with `cargo xtask guides NAME`",
    },
    Step {
        name: "outside",
        needs: Needs::Toolchain,
        applies: Applies::Always,
        run: Run::Outside,
        advice: "run `cargo xtask outside`; the crate is tests/outside",
    },
    Step {
        name: "doctests",
        needs: Needs::Toolchain,
        applies: Applies::WithTarget("lib"),
        run: Run::Cargo { args: &["test", "--workspace", "--doc"], env: &[] },
        advice: "run `cargo test --doc -p CRATE`",
    },
    Step {
        name: "transcripts",
        needs: Needs::Toolchain,
        applies: Applies::Always,
        run: Run::Transcripts,
        advice: "copy what the command prints into the README",
    },
    Step {
        name: "documentation",
        needs: Needs::Toolchain,
        applies: Applies::Always,
        run: Run::Cargo {
            args: &["doc", "--workspace", "--no-deps"],
            env: &[("RUSTDOCFLAGS", "-D warnings")],
        },
        advice: "run `cargo doc --workspace --no-deps` and follow its warnings",
    },
    // `cargo test` gives the benchmarks no `--bench`, on which divan runs each of them once. A
    // glob and not `--benches`, which would run the unit tests of every library a second time.
    Step {
        name: "benchmarks",
        needs: Needs::Toolchain,
        applies: Applies::WithTarget("bench"),
        run: Run::Cargo { args: &["test", "--workspace", "--bench", "*"], env: &[] },
        advice: "run `cargo test -p CRATE --bench BENCHMARK`",
    },
];

/// Runs the steps, all of them or from one on.
pub(crate) fn run(root: &Path, scope: Scope, from: Option<&str>) -> anyhow::Result<Verdict> {
    let steps = steps_from(from)?;
    let members = metadata::members(root)?;
    if let Some(line) = left_out(steps, scope) {
        println!("{line}");
    }
    let mut n_passed = 0;
    for step in steps.iter().filter(|step| step.is_in(scope) && step.applies_to(&members)) {
        println!("{}: running", step.name);
        let started = Instant::now();
        let verdict = step.run.perform(root, scope)?;
        let seconds = started.elapsed().as_secs_f64();
        match verdict {
            Verdict::Clean => println!("{}: passed in {seconds:.1} s", step.name),
            Verdict::Wanting => {
                println!("{}: failed after {seconds:.1} s; {}", step.name, step.advice);
                println!("{}", closing_line(n_passed, 1));
                return Ok(Verdict::Wanting);
            }
        }
        n_passed += 1;
    }
    println!("{}", closing_line(n_passed, 0));
    Ok(Verdict::Clean)
}

fn steps_from(name: Option<&str>) -> anyhow::Result<&'static [Step]> {
    let Some(name) = name else { return Ok(STEPS) };
    let found = STEPS.iter().position(|step| step.name == name);
    let names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
    let found = found.with_context(|| {
        format!("no step is called `{name}`; expected one of {}", names.join(", "))
    })?;
    Ok(&STEPS[found..])
}

/// Says what a scope leaves out: the output of tests that pass is not shown.
fn left_out(steps: &[Step], scope: Scope) -> Option<String> {
    let names: Vec<_> =
        steps.iter().filter(|step| !step.is_in(scope)).map(|step| step.name).collect();
    let names = names.join(", ");
    (!names.is_empty()).then(|| {
        format!(
            "left out: the steps {names}, and the tests that need PostgreSQL, strace, Python or npm"
        )
    })
}

/// CI reads this line, so it stands alone and keeps its form.
fn closing_line(n_passed: usize, n_failed: usize) -> String {
    format!("steps: {n_passed} passed, {n_failed} failed")
}

impl Step {
    fn is_in(&self, scope: Scope) -> bool {
        match scope {
            Scope::All => true,
            Scope::Fast => self.needs == Needs::Toolchain,
        }
    }

    fn applies_to(&self, members: &[Package]) -> bool {
        match self.applies {
            Applies::Always => true,
            Applies::WithTarget(kind) => {
                members.iter().flat_map(|member| &member.target_kinds).any(|found| found == kind)
            }
        }
    }
}

impl Run {
    fn perform(self, root: &Path, scope: Scope) -> anyhow::Result<Verdict> {
        match self {
            Run::Cargo { args, env } => cargo(root, args, &[env, scope.env()].concat()),
            Run::Nextest { otherwise } => {
                if has_nextest(root) {
                    cargo(root, &["nextest", "run", "--workspace"], scope.env())
                } else {
                    cargo(root, otherwise, scope.env())
                }
            }
            Run::Install(program) => programs::install(program),
            Run::Browser => browser::run(root),
            Run::Clients => clients::run(root),
            Run::Faults => faults::run(root, &faults::Order::default()),
            Run::Features => features::run(root),
            Run::Outside => outside::run(root),
            Run::Dist => dist::run_step(root),
            Run::Guides => guides::run(root, ""),
            Run::Tidy => tidy::run(root),
            Run::Transcripts => transcript::run(root),
        }
    }
}

impl Scope {
    /// Tests that need more than the toolchain leave that part out, and say so.
    const fn env(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Scope::All => &[],
            Scope::Fast => &[("HAFT_TEST_FAST", "1")],
        }
    }
}

fn cargo(root: &Path, args: &[&str], env: &[(&str, &str)]) -> anyhow::Result<Verdict> {
    let status = metadata::cargo()
        .args(args)
        .envs(env.iter().copied())
        .current_dir(root)
        .status()
        .with_context(|| format!("starting `cargo {}`", args.join(" ")))?;
    Ok(if status.success() { Verdict::Clean } else { Verdict::Wanting })
}

fn has_nextest(root: &Path) -> bool {
    let mut version = metadata::cargo();
    version.args(["nextest", "--version"]).current_dir(root);
    version.stdout(Stdio::null()).stderr(Stdio::null());
    version.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Member;

    fn step(needs: Needs, applies: Applies) -> Step {
        Step { name: "probe", needs, applies, run: Run::Tidy, advice: "" }
    }

    fn library() -> Package {
        Package {
            name: "haft-core".to_owned(),
            version: "0.1.0".to_owned(),
            license: None,
            source: None,
            member: Member::Ours,
            target_kinds: vec!["lib".to_owned()],
        }
    }

    #[test]
    fn fast_leaves_out_what_needs_more_than_the_toolchain() {
        assert!(step(Needs::System, Applies::Always).is_in(Scope::All));
        assert!(!step(Needs::System, Applies::Always).is_in(Scope::Fast));
        assert!(step(Needs::Toolchain, Applies::Always).is_in(Scope::Fast));
    }

    #[test]
    fn fast_tells_the_tests_to_leave_out_what_they_would_start() {
        assert_eq!(steps_from(Some("clients")).unwrap()[0].name, "clients");
        assert!(steps_from(Some("nothing")).err().unwrap().to_string().contains("browser"));
        assert_eq!(Scope::Fast.env(), [("HAFT_TEST_FAST", "1")]);
        assert_eq!(Scope::All.env(), []);
        let needy: Vec<_> = STEPS.iter().filter(|step| !step.is_in(Scope::Fast)).collect();
        assert_eq!(
            needy.iter().map(|step| step.name).collect::<Vec<_>>(),
            [
                "postgresql",
                "pgbouncer",
                "strace",
                "python",
                "faults",
                "npm",
                "clients",
                "chromium",
                "browser",
                "dist",
                "curl",
                "jq",
                "guides"
            ]
        );
    }

    #[test]
    fn a_step_without_a_target_to_work_on_is_left_out() {
        let members = [library()];
        assert!(step(Needs::Toolchain, Applies::WithTarget("lib")).applies_to(&members));
        assert!(!step(Needs::Toolchain, Applies::WithTarget("bench")).applies_to(&members));
    }

    #[test]
    fn what_a_scope_leaves_out_is_said() {
        assert_eq!(left_out(STEPS, Scope::All), None);
        assert!(left_out(STEPS, Scope::Fast).unwrap().contains("clients, chromium, browser"));
    }

    #[test]
    fn the_closing_line_has_the_form_that_ci_reads() {
        assert_eq!(closing_line(7, 0), "steps: 7 passed, 0 failed");
    }

    #[test]
    fn the_steps_start_with_the_quick_ones() {
        let names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        assert_eq!(names[..3], ["format", "tidy", "clippy"]);
    }
}
