//! The README's transcript: a call waits, the server is killed, the call is approved, and the
//! effect happens once. Recorded by really doing it.

use std::path::Path;

use crate::commands::haft;
use crate::serving::Serving;

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
const MARK: &str = "<!-- tested by: crates/haft-cli/tests/it/story.rs -->\n```console\n";

/// What a reader types, and what they see.
#[derive(Default)]
struct Transcript(String);

impl Transcript {
    fn typed(&mut self, command: &str, said: &str) {
        self.0.push_str(&format!("$ {command}\n{said}"));
    }
}

fn ledger(data: &Path) -> String {
    let workspaces = std::fs::read_dir(data.join("workspaces")).into_iter().flatten();
    let paths = workspaces.map(|entry| entry.unwrap().path().join("ledger"));
    let found: Vec<String> = paths.filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    let none = "cat: 'haft-data/workspaces/*/ledger': No such file or directory\n";
    if found.is_empty() { none.to_owned() } else { found.concat() }
}

// What is different each time is shortened.
#[test]
fn the_readme_shows_what_happens() {
    let data = tempfile::tempdir().unwrap();
    let mut told = Transcript::default();
    let server = Serving::start(data.path(), None);
    told.typed("haft serve &", "");
    let arguments = r#"{"command": "echo paid 500 >> ledger"}"#;
    let call = format!("haft tools call shell_run --args '{arguments}' </dev/null");
    let waits = haft(data.path(), &["tools", "call", "shell_run", "--args", arguments]);
    let id = waits.stderr.split('`').nth(1).unwrap().trim_start_matches("haft pending ").to_owned();
    told.typed(&call, &waits.stderr);
    let key = server.key.clone();
    drop(server);
    told.typed("kill -9 %1", "");
    told.typed("cat haft-data/workspaces/*/ledger", &ledger(data.path()));
    let _server = Serving::start(data.path(), Some(&key));
    told.typed("haft serve &", "");
    for _ in 0..2 {
        let approved = haft(data.path(), &["approve", &id]);
        let said = approved.stdout + &approved.stderr;
        told.typed(&format!("haft approve {id}"), &said);
    }
    told.typed("cat haft-data/workspaces/*/ledger", &ledger(data.path()));
    // The journal is also checked beside the server that has it.
    let audit = haft(data.path(), &["audit", "verify"]);
    assert!(audit.stdout.ends_with("entries, whole\n"), "{}", audit.stderr);
    let time = |line: &str| match line.split_once("✓ done ") {
        Some((before, rest)) => {
            let rest = rest.split_once("  ").map_or("", |(_, rest)| rest);
            format!("{before}✓ done  {rest}").trim_end().to_owned()
        }
        None => line.to_owned(),
    };
    // The rest of a word that is another one each time.
    let short = |line: String, word: &str, kept: usize| match line.split_once(word) {
        Some((before, rest)) => {
            let rest = rest.trim_start_matches(|c: char| c.is_alphanumeric() || "-:.".contains(c));
            format!("{before}{}…{rest}", &word[..kept])
        }
        None => line,
    };
    let told = told.0.replace(&id, "call_01k9…");
    let same = |line: &str| short(short(time(line), "sesn_", 5), " at 20", 6);
    let told = told.lines().map(same).collect::<Vec<_>>().join("\n");
    let readme = std::fs::read_to_string(README).unwrap();
    let (before, rest) = readme.split_once(MARK).expect("the README has its transcript");
    let (shown, after) = rest.split_once("\n```").unwrap();
    if std::env::var_os("HAFT_BLESS").is_some() {
        std::fs::write(README, format!("{before}{MARK}{told}\n```{after}")).unwrap();
        return;
    }
    assert_eq!(shown, told, "run with HAFT_BLESS=1");
}
