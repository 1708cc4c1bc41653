//! The commands in the guides and in the examples' READMEs do what is said there.
//!
//! Each document is one bash session in a directory of its own, with the real `haft` on its
//! path: blocks of `sh` are run, blocks of `console` are run and what they print is compared, and
//! blocks marked as files are written. Only the ports are exchanged for free ones, so that
//! documents can be run beside a server of the developer's.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::document::{Block, Mark, blocks};
use crate::tree::Tree;
use crate::{Verdict, clients, metadata};

/// How long one document may take, what it compiles included.
const PATIENCE: &str = "900";

/// The ports that documents name, for at most as many servers.
const PORTS: [&str; 3] = ["7800", "7801", "7802"];

/// What a document's commands must not find in the environment of whoever runs the tests.
const UNSET: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "HAFT_API_KEY",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
];

/// Whether the commands of a document are run.
pub(crate) fn is_guide(path: &str) -> bool {
    path.starts_with("docs/") || path.starts_with("examples/")
}

/// Runs the documents whose path contains `only`.
pub(crate) fn run(root: &Path, only: &str) -> anyhow::Result<Verdict> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let Some(haft) = binary(root, &target)? else { return Ok(Verdict::Wanting) };
    if clients::sdk_python(root, &target)?.is_none() {
        return Ok(Verdict::Wanting);
    }
    let tree = Tree::read(root)?;
    let mut verdict = Verdict::Clean;
    for file in tree.with_extension("md").filter(|file| is_guide(&file.path)) {
        let script = Script::of(&file.text);
        if script.is_empty() || !file.path.contains(only) {
            continue;
        }
        let place = Place::make(root, &target, &haft, &file.path)?;
        let objections = script.run(&place)?;
        match objections.is_empty() {
            true => println!("{}: {} blocks did what they say", file.path, script.steps.len()),
            false => verdict = Verdict::Wanting,
        }
        for objection in objections {
            println!("{}:{objection}", file.path);
        }
    }
    Ok(verdict)
}

/// The binary that documents call `haft`: the one that `HAFT` names, or one built from here.
fn binary(root: &Path, target: &Path) -> anyhow::Result<Option<PathBuf>> {
    if let Some(given) = std::env::var_os("HAFT") {
        return Ok(Some(PathBuf::from(given)));
    }
    let mut build = metadata::cargo();
    build.args(["build", "-q", "-p", "haft-cli"]).current_dir(root);
    let built = build.status().with_context(|| format!("starting {build:?}"))?;
    Ok(built.success().then(|| target.join("debug/haft")))
}

/// Where a document's commands are run.
struct Place {
    /// What the commands see as theirs.
    directory: PathBuf,
    /// What the run itself keeps: the script, what was printed, the programs on the path.
    beside: PathBuf,
    path: String,
    ports: [u16; PORTS.len()],
}

impl Place {
    fn make(root: &Path, target: &Path, haft: &Path, document: &str) -> anyhow::Result<Place> {
        let name = document.trim_end_matches(".md").replace('/', "-");
        let beside = target.join("guides").join(name);
        if beside.exists() {
            fs::remove_dir_all(&beside)
                .with_context(|| format!("emptying `{}`", beside.display()))?;
        }
        // What belongs to an example is beside its README; a guide's reader begins with nothing.
        let directory = match document.starts_with("examples/") {
            true => root.to_path_buf(),
            false => beside.join("here"),
        };
        fs::create_dir_all(beside.join("bin"))?;
        fs::create_dir_all(&directory)?;
        let ports = free_ports()?;
        let called = beside.join("bin/haft");
        fs::write(&called, shim(haft, ports[0]))?;
        fs::set_permissions(&called, fs::Permissions::from_mode(0o755))?;
        let own = std::env::var("PATH").unwrap_or_default();
        let python = target.join("sdk/python/bin");
        let path = format!("{}:{}:{own}", beside.join("bin").display(), python.display());
        Ok(Place { directory, beside, path, ports })
    }

    /// Puts the ports that are free here in the place of those that a document names.
    fn localised(&self, text: &str) -> String {
        let pairs = PORTS.iter().zip(self.ports);
        pairs.fold(text.to_owned(), |text, (named, free)| {
            text.replace(&format!(":{named}"), &format!(":{free}"))
        })
    }

    fn as_documented(&self, text: &str) -> String {
        let pairs = PORTS.iter().zip(self.ports);
        pairs.fold(text.to_owned(), |text, (named, free)| {
            text.replace(&format!(":{free}"), &format!(":{named}"))
        })
    }
}

/// The binary under the name that documents use; a server listens where nobody else does.
fn shim(haft: &Path, port: u16) -> String {
    let haft = haft.display();
    format!(
        "#!/bin/bash\nif [ \"${{1-}}\" = serve ] && [[ \" $* \" != *\" --listen \"* ]]; then\n  \
         shift; exec {haft} serve --listen 127.0.0.1:{port} \"$@\"\nfi\nexec {haft} \"$@\"\n"
    )
}

fn free_ports() -> anyhow::Result<[u16; PORTS.len()]> {
    // All are held until all are known, or one could be given twice.
    let held = [free_port()?, free_port()?, free_port()?];
    let mut ports = [0; PORTS.len()];
    for (port, listener) in ports.iter_mut().zip(&held) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

fn free_port() -> anyhow::Result<TcpListener> {
    TcpListener::bind(("127.0.0.1", 0)).context("looking for a free port")
}

/// What is done with a document, in its order.
struct Script {
    steps: Vec<Step>,
}

struct Step {
    line: usize,
    act: Act,
}

#[derive(Debug, PartialEq)]
enum Act {
    Write { name: String, text: String },
    Run(String),
    Show(Vec<Shown>),
}

/// A command, and what it is said to print.
#[derive(Debug, PartialEq)]
struct Shown {
    command: String,
    printed: String,
}

impl Script {
    fn of(document: &str) -> Script {
        let step = |block: Block<'_>| {
            let act = match (block.language, block.mark) {
                (_, Some(Mark::File(name))) => {
                    Act::Write { name: name.to_owned(), text: block.text }
                }
                ("sh", None) => Act::Run(block.text),
                ("console", None) => Act::Show(shown(&block.text)),
                _ => return None,
            };
            Some(Step { line: block.line, act })
        };
        Script { steps: blocks(document).into_iter().filter_map(step).collect() }
    }

    fn is_empty(&self) -> bool {
        self.steps.iter().all(|step| matches!(step.act, Act::Write { .. }))
    }

    /// Returns what is wrong, each with its line in the document.
    fn run(&self, place: &Place) -> anyhow::Result<Vec<String>> {
        let script = place.beside.join("script");
        fs::write(&script, self.bash(place)?)?;
        let log = fs::File::create(place.beside.join("log"))?;
        let mut bash = Command::new("timeout");
        bash.args(["--kill-after=5", PATIENCE, "bash"]).arg(&script);
        bash.current_dir(&place.directory).env("PATH", &place.path).env("NO_COLOR", "1");
        for name in UNSET {
            bash.env_remove(name);
        }
        let status = bash.stdout(log.try_clone()?).stderr(log).status();
        let status = status.with_context(|| format!("starting {bash:?}"))?;
        let reached = fs::read_to_string(place.beside.join("reached")).unwrap_or_default();
        if !status.success() {
            let log = fs::read_to_string(place.beside.join("log")).unwrap_or_default();
            let printed = self.printed(place, reached.trim());
            let what = format!("{}: failed with {status}\n{log}{printed}", reached.trim());
            return Ok(vec![what]);
        }
        Ok(self.steps.iter().flat_map(|step| step.objections(place)).collect())
    }

    fn bash(&self, place: &Place) -> anyhow::Result<String> {
        let beside = place.beside.display();
        let mut script = String::from(
            "set -euo pipefail\nulimit -c 0\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait || true' EXIT\n",
        );
        for Step { line, act } in &self.steps {
            writeln!(script, "echo {line} >{beside}/reached")?;
            match act {
                Act::Write { name, text } => {
                    if name.contains("..") || name.starts_with('/') {
                        bail!("line {line}: expected a file in the reader's directory: `{name}`");
                    }
                    let text = place.localised(text);
                    writeln!(script, "mkdir -p \"$(dirname {name})\"")?;
                    writeln!(script, "cat >{name} <<'END-OF-FILE'\n{text}END-OF-FILE")?;
                }
                Act::Run(commands) => script.push_str(&place.localised(commands)),
                Act::Show(shown) => {
                    for (n, Shown { command, .. }) in shown.iter().enumerate() {
                        let command = place.localised(command);
                        // `haft` ends so where something waits, or was decided already.
                        let known = "case $? in 3 | 4) ;; *) exit 1 ;; esac";
                        writeln!(script, "{{ {command}\n}} >{beside}/{line}.{n} 2>&1 || {known}")?;
                    }
                }
            }
        }
        Ok(script)
    }

    /// What the commands of the block at a line printed before one of them failed.
    fn printed(&self, place: &Place, line: &str) -> String {
        let read = |n: usize| fs::read_to_string(place.beside.join(format!("{line}.{n}"))).ok();
        (0..).map_while(read).collect()
    }
}

impl Step {
    fn objections(&self, place: &Place) -> Vec<String> {
        let Act::Show(shown) = &self.act else { return Vec::new() };
        let objection = |(n, shown): (usize, &Shown)| {
            let printed = fs::read_to_string(place.beside.join(format!("{}.{n}", self.line)));
            let printed = place.as_documented(&printed.unwrap_or_default());
            let Shown { command, printed: expected } = shown;
            (!matches(expected, &printed))
                .then(|| format!("{}: `{command}` prints something else:\n{printed}", self.line))
        };
        shown.iter().enumerate().filter_map(objection).collect()
    }
}

/// Reads `$ command`, lines that go on with `> `, and what is printed.
fn shown(text: &str) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            found.push(Shown { command: command.to_owned(), printed: String::new() });
        } else if let Some(last) = found.last_mut() {
            match line.strip_prefix("> ") {
                Some(more) if last.printed.is_empty() => {
                    last.command.push('\n');
                    last.command.push_str(more);
                }
                _ => {
                    last.printed.push_str(line);
                    last.printed.push('\n');
                }
            }
        }
    }
    found
}

/// Whether a text is what was expected, where `…` stands for anything within a line, and alone
/// on its line for any lines.
fn matches(expected: &str, found: &str) -> bool {
    let expected: Vec<&str> = expected.trim_matches('\n').lines().collect();
    let found: Vec<&str> = found.trim_end().trim_start_matches('\n').lines().collect();
    lines_match(&expected, &found)
}

fn lines_match(expected: &[&str], found: &[&str]) -> bool {
    match (expected.split_first(), found.split_first()) {
        (None, found) => found.is_none(),
        (Some((&"…", rest)), _) => {
            (0..=found.len()).any(|skipped| lines_match(rest, &found[skipped..]))
        }
        (Some(_), None) => false,
        (Some((line, rest)), Some((other, others))) => {
            line_matches(line, other.trim_end()) && lines_match(rest, others)
        }
    }
}

fn line_matches(expected: &str, found: &str) -> bool {
    let Some((start, rest)) = expected.split_once('…') else { return expected == found };
    let Some(mut found) = found.strip_prefix(start) else { return false };
    let parts: Vec<&str> = rest.split('…').collect();
    let Some((last, between)) = parts.split_last() else { return true };
    for part in between {
        let Some(at) = found.find(part) else { return false };
        found = &found[at + part.len()..];
    }
    found.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_block_is_commands_and_what_they_print() {
        let text = "$ echo a \\\n> b\na b\n$ true\n";
        let first = Shown { command: "echo a \\\nb".to_owned(), printed: "a b\n".to_owned() };
        let second = Shown { command: "true".to_owned(), printed: String::new() };
        assert_eq!(shown(text), [first, second]);
    }

    #[test]
    fn an_ellipsis_stands_for_what_differs_each_time() {
        assert!(matches("call_… waits\n", "call_01ABC waits\n"));
        assert!(matches("a … c …\n", "a b c d"));
        assert!(matches("a\n…\nz\n", "a\nb\nc\nz\n"));
        assert!(matches("a\n…\nz\n", "a\nz\n"));
        assert!(!matches("call_… waits\n", "call_01ABC runs\n"));
        assert!(!matches("a\n", "a\nb\n"));
        assert!(!matches("a\nb\n", "a\n"));
    }

    #[test]
    fn blocks_are_done_in_their_order_and_others_are_left_alone() {
        let document = "<!-- file: a.txt -->\n```text\nx\n```\n```rust\n```\n```sh\ncat a.txt\n\
                        ```\n<!-- not run: slow -->\n```sh\nsleep 9\n```\n";
        let script = Script::of(document);
        let acts: Vec<&Act> = script.steps.iter().map(|step| &step.act).collect();
        let file = Act::Write { name: "a.txt".to_owned(), text: "x\n".to_owned() };
        assert_eq!(acts, [&file, &Act::Run("cat a.txt\n".to_owned())]);
    }
}
