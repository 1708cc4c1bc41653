//! The attacks of `tests/corpus.jsonl` on paths, names and patterns.

use crate::place::{CANARY, Place, in_workspace};
use haft_sandbox::edit::{Edit, Places};
use haft_sandbox::files::{Expected, Parents, Window};
use haft_sandbox::search::{Bounds, Case, Glob, Grep, Hidden, Ignores, Query};
use serde_json::Value;
use std::process::Command;

/// One line of the corpus.
pub(crate) struct Attack {
    pub(crate) id: String,
    pub(crate) area: String,
    pub(crate) input: Value,
    pub(crate) verdict: String,
}

pub(crate) fn attacks(area: &str) -> Vec<Attack> {
    let read = |line: &str| {
        let case: Value = serde_json::from_str(line).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Attack {
            id: text(&case["id"]),
            area: text(&case["area"]),
            input: case["input"].clone(),
            verdict: text(&case["expect"]["verdict"]),
        }
    };
    let all = include_str!("../corpus.jsonl").lines().map(read);
    let found: Vec<_> = all.filter(|attack| attack.area == area).collect();
    assert!(found.len() >= 10, "the corpus has attacks on {area}");
    found
}

/// A text of the corpus, written out where it is abbreviated; `None` where it is no text at all.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(_) => {
            let [piece, count] = value["$repeat"].as_array()?.as_slice() else { return None };
            Some(piece.as_str()?.repeat(usize::try_from(count.as_u64()?).ok()?))
        }
        _ => None,
    }
}

/// Decided elsewhere: races in `race.rs`; a full disk needs a file system of its own; what is shown to
/// people is not this crate's.
const ELSEWHERE: &[&str] = &["symlink-010", "symlink-011", "symlink-025", "symlink-028"];
/// Refused in the corpus's words, but what counts is how the name is shown: see `files.rs`.
const SHOWN: &[&str] = &["symlink-022", "symlink-023"];

// D8
#[test]
fn d8_no_attack_on_paths_reads_or_changes_what_lies_outside() {
    let mut tried = 0;
    for attack in ["path", "symlink", "unicode", "regex"].into_iter().flat_map(attacks) {
        if attack.input["call"].is_object() && !ELSEWHERE.contains(&attack.id.as_str()) {
            tried += usize::from(try_attack(&attack));
        }
    }
    assert!(tried >= 60, "only {tried} attacks were tried");
}

fn try_attack(attack: &Attack) -> bool {
    let place = Place::new();
    for command in attack.input["setup"].as_array().into_iter().flatten() {
        set_up(&place, command.as_str().unwrap());
    }
    let call = &attack.input["call"];
    let Some(outcome) = perform(&place, call["tool"].as_str().unwrap(), &call["args"]) else {
        return false;
    };
    let said = match &outcome {
        Ok(said) | Err(said) => said,
    };
    assert!(!said.contains(CANARY) && !said.contains("root:x:"), "{}: outside bytes", attack.id);
    assert!(
        !said.contains(place.host().to_str().unwrap()),
        "{}: a host path is told: {said}",
        attack.id
    );
    let denied = matches!(attack.verdict.as_str(), "deny" | "invalid")
        && !SHOWN.contains(&attack.id.as_str());
    assert!(!denied || outcome.is_err(), "{}: not refused: {said}", attack.id);
    if attack.id == "symlink-012" {
        std::fs::remove_file(place.host().join("hard")).unwrap();
    }
    place.check_canaries();
    true
}

/// The same files in less time: what counts is that there are many, or much.
fn set_up(place: &Place, command: &str) {
    let cheaper = command
        .replace("head -c 3000000000 /dev/zero > big", "truncate -s 3G big")
        .replace("200000", "20000");
    let script = format!("touch f; {cheaper}");
    let status =
        Command::new("bash").args(["-c", &script]).current_dir(place.host()).status().unwrap();
    assert!(status.success(), "{command}");
}

fn perform(place: &Place, tool: &str, args: &Value) -> Option<Result<String, String>> {
    let files = &place.files;
    let name =
        args.get("path").or_else(|| args.get("cwd")).map_or_else(|| Some(".".to_owned()), text)?;
    let path = match in_workspace(&name) {
        Ok(path) => path,
        Err(refused) => return Some(Err(refused.to_string())),
    };
    let of = |name: &str| args.get(name).and_then(text).unwrap_or_default();
    let outcome = match tool {
        "read" => files
            .read(&path, Window::Whole, 4096)
            .map(|reading| String::from_utf8_lossy(&reading.bytes).into_owned())
            .map_err(|error| error.to_string()),
        "write" => files
            .write(&path, of("content").as_bytes(), Expected::Anything, Parents::Create)
            .map(|_| String::new())
            .map_err(|error| error.to_string()),
        "edit" => {
            let edit = Edit { old: of("old"), new: of("new"), places: Places::One };
            files.edit(&path, &edit, None).map(|_| String::new()).map_err(|error| error.to_string())
        }
        "glob" => Glob::parse(&of("pattern")).map_err(|error| error.to_string()).and_then(|glob| {
            let rules = (Hidden::Include, Ignores::Disregard);
            files
                .glob(&path, &glob, None, rules, Bounds::default())
                .map_err(|error| error.to_string())
                .map(|found| found.entries.iter().map(|entry| entry.path.to_string()).collect())
        }),
        "grep" => Grep::new(Query::Regex(&of("pattern")), Case::Sensitive)
            .and_then(|grep| {
                files.grep(&path, &grep, (Hidden::Include, Ignores::Disregard), Bounds::default())
            })
            .map(|found| format!("{found:?}"))
            .map_err(|error| error.to_string()),
        "shell_set_cwd" => {
            files.directory(&path).map(|()| String::new()).map_err(|error| error.to_string())
        }
        other => panic!("the corpus calls the unknown tool {other}"),
    };
    Some(outcome)
}
