//! Golden files: the reference, and what errors look like. `HAFT_BLESS=1` writes them anew.

#![expect(clippy::disallowed_methods, reason = "runs the binary")]

use std::path::Path;
use std::process::Command;

use crate::commands::haft;

#[track_caller]
fn check(path: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("HAFT_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, found).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let lines = kept.lines().zip(found.lines());
    let differs = lines.enumerate().find(|(_, (kept, found))| kept != found);
    assert!(
        kept == found,
        "{} differs, first at {differs:?}; run with HAFT_BLESS=1",
        path.display()
    );
}

// How long a value in the environment is would change where lines are broken: there is none.
#[test]
fn the_reference_is_what_the_commands_say() {
    let output = Command::new(env!("CARGO_BIN_EXE_haft")).arg("reference").env_clear().output();
    check("../../docs/reference/cli.md", &String::from_utf8(output.unwrap().stdout).unwrap());
}

#[test]
fn errors_say_what_happened_why_and_what_to_do() {
    let data = tempfile::tempdir().unwrap();
    std::fs::write(data.path().join("bad.json"), r#"[{"name": "x"}]"#).unwrap();
    let commands: &[&[&str]] = &[
        &["pending"],
        &["audit", "verify"],
        &["approve"],
        &["approve", "call_1"],
        &["settle", "call_1", "maybe"],
        &["answer", "call_1", "{"],
        &["approve", "call_1", "--args", "[1]"],
        &["chat"],
        &["pending", "--server", "http://127.0.0.1:9"],
        &["pending", "--server", "ftp://there"],
        &["pending", "--server", "nonsense"],
        &["mcp", "add", "peer"],
        &["tools", "show", "shell"],
        &["tools", "call", "shell_runs"],
        &["tools", "import", "bad.json"],
        &["explain", "nonsense"],
        &["keys", "create", "--actor", "ann", "--scope", "everything"],
    ];
    let mut found = String::new();
    for args in commands {
        let ended = haft(data.path(), args);
        found.push_str(&format!(
            "$ haft {}\n{}exit {}\n\n",
            args.join(" "),
            ended.stderr,
            ended.code
        ));
    }
    let directory = data.path().to_str().unwrap();
    check("tests/golden/errors.txt", &found.replace(directory, "DATA"));
}
