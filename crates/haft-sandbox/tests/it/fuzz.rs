//! Random commands, paths and edits. Short by default; `HAFT_FUZZ=100` makes a hundred times as
//! many, `PROPTEST_RNG_SEED` others.

use crate::corpus::attacks;
use crate::place::{CANARY, Place, absolute, at, in_workspace};
use crate::process::open;
use haft_sandbox::classify::{look, programs, project, simple_command};
use haft_sandbox::edit::{Edit, Places};
use haft_sandbox::files::{ContentHash, Expected, Parents, RemoveWhat, Window};
use haft_sandbox::policy::Limits;
use haft_sandbox::process::{Command, Sandbox};
use haft_sandbox::search::{Bounds, Case, Glob, Grep, Hidden, Ignores, Query};
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[expect(clippy::disallowed_methods, reason = "how long to try is the caller's choice")]
fn config(short: u32) -> ProptestConfig {
    let times = std::env::var("HAFT_FUZZ").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    ProptestConfig {
        cases: short.saturating_mul(times),
        failure_persistence: None,
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    }
}

/// All that a tree is: names, kinds, modes and content.
fn snapshot(directory: &Path, found: &mut BTreeMap<PathBuf, (u32, Vec<u8>)>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let facts = std::fs::symlink_metadata(&path).unwrap();
        let content = match facts.file_type() {
            kind if kind.is_file() => std::fs::read(&path).unwrap(),
            kind if kind.is_symlink() => {
                std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            }
            _ => Vec::new(),
        };
        found.insert(path.clone(), (facts.mode(), content));
        if facts.is_dir() {
            snapshot(&path, found);
        }
    }
}

fn tree(place: &Place) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    snapshot(&place.host(), &mut found);
    found
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Runs commands one after the other where everything could be changed.
fn run_all(sandbox: &Sandbox, commands: &[String]) {
    let each = commands
        .iter()
        .map(|command| format!("timeout -s KILL 1 {command} </dev/null >/dev/null 2>&1\n"));
    let mut command = Command::script(&each.collect::<String>(), at("."));
    command.limits = Limits { wall: Duration::from_secs(300), ..Limits::WORK };
    sandbox.run(command).unwrap().wait();
}

/// Words that attacks are made of, and words that ordinary commands are made of.
fn words() -> Vec<String> {
    let mut words: Vec<String> = attacks("bash_ro")
        .iter()
        .flat_map(|attack| {
            attack.input["call"]["args"]["argv"].as_array().cloned().unwrap_or_default()
        })
        .filter_map(|word| word.as_str().map(str::to_owned))
        .filter(|word| word.len() < 200)
        .collect();
    let ordinary = "-n -c -l -a -r -i -o -w -e -f -s -u -k -t -d -q -v -x -z -0 -1 2 -n2 -type -name -exec -delete \
        -fprint -fls -ok -prune -print ; + {} --output --output=out -oout -w1 --in-place --files0-from=a.txt \
        --compress-program=./x --color=always --help --version --follow -- - . .. sub a.txt ./a.txt sub/b.txt \
        *.txt w /w out/ 1,2p 1,2p;wout s/a/b/w s/a/b/e e id r a.txt -F -E -P pattern a.txt+ \\; \
        --exclude-dir=x --include=*.txt -R -L -H -maxdepth 3 -newer -perm -size -empty -quit";
    words.extend(ordinary.split_whitespace().map(str::to_owned));
    words
}

fn argv() -> impl Strategy<Value = Vec<String>> {
    let names: Vec<String> = programs().map(str::to_owned).collect();
    let word = prop_oneof![
        6 => select(words()),
        1 => (select(words()), select(words())).prop_map(|(a, b)| format!("{a}{b}")),
        1 => (select(words()), select(words())).prop_map(|(a, b)| format!("{a}={b}")),
        1 => "[ -~]{0,6}",
    ];
    (select(names), prop::collection::vec(word, 0..5))
        .prop_map(|(name, words)| std::iter::once(name).chain(words).collect())
}

/// A text for a shell, more often simple than not.
fn shell_text() -> impl Strategy<Value = String> {
    let names: Vec<String> =
        programs().map(str::to_owned).chain(["sed".into(), "rg".into()]).collect();
    let glue = prop_oneof![12 => Just(" "), 1 => select(vec!["; ", " | ", " > ", " && ", "\n", " & ", "$", "`", "\t"])];
    let quote = prop_oneof![6 => Just(""), 1 => Just("'"), 1 => Just("\"")];
    let word = (glue, quote, select(words()))
        .prop_map(|(glue, quote, word)| format!("{glue}{quote}{word}{quote}"));
    (select(names), prop::collection::vec(word, 0..5))
        .prop_map(|(name, words)| name + &words.concat())
}

proptest! {
    #![proptest_config(config(6))]

    // D26, S2-68: what is taken for a look changes nothing, though it could.
    #[test]
    fn d26_a_command_that_is_taken_for_a_look_changes_nothing(all in prop::collection::vec(argv(), 60)) {
        let place = Place::new();
        place.put("sub/b.txt", "b\n");
        let mounts = place.files.mounts().clone();
        let taken: Vec<String> = all
            .iter()
            .filter_map(|argv| look(argv, &absolute("/workspace"), &mounts).ok())
            .map(|look| look.argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "))
            .collect();
        // A sandbox makes the places where its roots are mounted.
        let sandbox = open(&place);
        let before = tree(&place);
        run_all(&sandbox, &taken);
        prop_assert_eq!(tree(&place), before, "{:?}", taken);
        place.check_canaries();
    }

    // D26: a shell text that amounts to a look changes nothing when a real shell runs it.
    #[test]
    fn d26_a_shell_text_that_amounts_to_a_look_changes_nothing(all in prop::collection::vec(shell_text(), 80)) {
        let place = Place::new();
        place.put("sub/b.txt", "b\n");
        let mounts = place.files.mounts().clone();
        let is_look = |text: &&String| simple_command(text).is_some_and(|words| {
            project(&words).is_some() || look(&words, &absolute("/workspace"), &mounts).is_ok()
        });
        let taken: Vec<String> =
            all.iter().filter(is_look).map(|text| format!("bash -c {}", quoted(text))).collect();
        // A sandbox makes the places where its roots are mounted.
        let sandbox = open(&place);
        let before = tree(&place);
        run_all(&sandbox, &taken);
        prop_assert_eq!(tree(&place), before, "{:?}", taken);
    }
}

/// A path out of names that lead somewhere, or try to.
fn path() -> impl Strategy<Value = String> {
    let names = [
        "..",
        ".",
        "",
        "a.txt",
        "sub",
        "out",
        "up",
        "top",
        "proc",
        "loop",
        "agent",
        "deep",
        "secret",
        "f",
        "etc",
        "passwd",
        "workspace",
        "workspace-evil",
        "outside",
        "...",
        "%2e%2e",
        "\\x2e\\x2e",
        "\\x2f",
        "．．",
        "~",
        "\u{202e}",
        "self",
        "root",
        "cwd",
        "fd",
        "0",
        "new",
        ".git",
        "hard",
        "A.TXT",
        "a.txt.",
        "*",
        "\\",
        "\\x00",
    ];
    let name = prop_oneof![10 => select(names.to_vec()).prop_map(str::to_owned), 1 => "\\PC{0,6}"];
    (
        select(vec!["", "/", "//", "/workspace/"]),
        prop::collection::vec(name, 1..7),
        select(vec!["", "/", "/."]),
    )
        .prop_map(|(start, names, end)| format!("{start}{}{end}", names.join("/")))
}

fn trapped() -> Place {
    let place = Place::new();
    place.put("deep/sub/x", "x");
    let link = |to: &str, name: &str| symlink(to, place.host().join(name)).unwrap();
    link("../outside", "out");
    link("..", "up");
    link("/", "top");
    link("/proc/self/root", "proc");
    link("loop", "loop");
    link("../../../outside/secret", "deep/sub/secret");
    link("sub", "deep/in");
    place
}

proptest! {
    #![proptest_config(config(6))]

    // D8: no path leads out, whatever is done there.
    #[test]
    fn d8_a_resolved_path_never_leaves(paths in prop::collection::vec(path(), 250)) {
        let place = trapped();
        let files = &place.files;
        let (grep, glob) = (Grep::new(Query::Text(&CANARY[..8]), Case::Sensitive).unwrap(), Glob::parse("secret").unwrap());
        let rules = (Hidden::Include, Ignores::Disregard);
        for text in &paths {
            let Ok(path) = in_workspace(text) else { continue };
            let shown = path.to_string();
            prop_assert_eq!(in_workspace(&shown).unwrap().to_string(), shown, "{:?}", text);
            if let Ok(reading) = files.read(&path, Window::Whole, 4096) {
                let read = String::from_utf8_lossy(&reading.bytes).into_owned();
                prop_assert!(!read.contains(CANARY) && !read.contains("root:x:"), "{text:?}");
            }
            if let Ok(found) = files.grep(&path, &grep, rules, Bounds::default()) {
                prop_assert_eq!(found.total, 0, "{:?}", text);
            }
            if let Ok(found) = files.glob(&path, &glob, Some(haft_sandbox::files::Kind::File), rules, Bounds::default()) {
                prop_assert_eq!(found.total, 0, "{:?}", text);
            }
            drop(files.write(&path, b"written", Expected::Anything, Parents::Create));
            drop(files.mkdir(&path, Parents::Create));
            drop(files.rename(&path, &at("moved")));
            drop(files.remove(&at("moved"), RemoveWhat::File));
            drop(files.remove(&path, RemoveWhat::File));
        }
        place.check_canaries();
    }
}

/// Applies a unified diff, as whoever reads it does in mind.
fn patched(old: &str, diff: &str) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let (mut new, mut taken) = (String::new(), 0);
    let mut lines = diff.split_inclusive('\n').skip(2).peekable();
    while let Some(line) = lines.next() {
        // Only a line's end is missing in the file, not in the diff.
        let ends = lines.peek().is_none_or(|next| !next.starts_with("\\ No newline"));
        let text = |line: &str| match ends {
            true => line[1..].to_owned(),
            false => line[1..].strip_suffix('\n').unwrap().to_owned(),
        };
        match &line[..1] {
            "@" => {
                let from = line.split(['-', ',', ' ']).nth(2).unwrap().parse::<usize>().unwrap();
                let counted = line.split(' ').nth(1).unwrap().ends_with(",0");
                let from = if counted { from } else { from - 1 };
                new.extend(old[taken..from].iter().copied());
                taken = from;
            }
            " " => {
                new.push_str(&text(line));
                taken += 1;
            }
            "-" => taken += 1,
            "+" => new.push_str(&text(line)),
            "\\" => {}
            other => panic!("{other:?} in a diff"),
        }
    }
    new.extend(old[taken..].iter().copied());
    new
}

proptest! {
    #![proptest_config(config(300))]

    // D11: what was shown is what is written, to the byte, and the diff says it all.
    #[test]
    fn d11_what_an_edit_shows_is_what_it_writes(
        pieces in prop::collection::vec("[ab$&\\\\é]{0,3}", 0..12),
        ending in select(vec!["\n", "\r\n", "\r"]),
        last in select(vec!["", "\n", "\r\n"]),
        old in "[ab$&\\\\é\n]{0,3}",
        new in "[abc$&1\\\\é\n]{0,4}",
        all in any::<bool>(),
    ) {
        let place = Place::new();
        let content = pieces.join(ending) + last;
        place.put("e", &content);
        let edit = Edit { old, new, places: if all { Places::All } else { Places::One } };
        match place.files.preview_edit(&at("e"), &edit) {
            Ok(shown) => {
                let (edited, _) = place.files.edit(&at("e"), &edit, Some(shown.base)).unwrap();
                let written = place.content("e");
                prop_assert_eq!(ContentHash::of(written.as_bytes()), shown.result);
                prop_assert_eq!(edited.replacements, shown.replacements);
                // A last line that ends in a lone CR is shown without its end.
                if !content.ends_with('\r') && !written.ends_with('\r') {
                    prop_assert_eq!(patched(&content, &shown.diff), written, "{}", shown.diff);
                }
                prop_assert!(place.files.edit(&at("e"), &edit, Some(shown.base)).is_err(), "it changed since");
            }
            Err(_) => prop_assert!(place.files.edit(&at("e"), &edit, None).is_err()),
        }
        if edit.apply(content.as_bytes()).is_err() {
            prop_assert_eq!(place.content("e"), content, "a refused edit changed the file");
        }
    }
}
