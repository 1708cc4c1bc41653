//! What counts as looking, and what a shell text amounts to.

use crate::corpus::{attacks, text};
use crate::place::{CANARY, Place, absolute, at};
use crate::process::{open_read_only, said};
use haft_sandbox::classify::{NotALook, Projection, look, project, simple_command};
use haft_sandbox::environment::{VariableError, Variables};
use haft_sandbox::files::{Kind, Window};
use haft_sandbox::process::{Command, Sandbox};
use proptest::prelude::*;
use std::time::Duration;

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn judged(place: &Place, argv: &[String]) -> Result<(), NotALook> {
    look(argv, &absolute("/workspace"), place.files.mounts()).map(drop)
}

#[test]
fn ordinary_looks_are_taken() {
    let place = Place::new();
    for text in [
        "pwd",
        "env",
        "ls",
        "ls -la",
        "ls -1 sub",
        "cat a.txt",
        "cat -n a.txt",
        "head -n 5 a.txt",
        "head -5 a.txt",
        "tail -n +2 a.txt",
        "tail -n5 a.txt",
        "wc -l a.txt",
        "wc -lw a.txt sub/x",
        "sed -n 1,5p a.txt",
        "sed -n 3p a.txt",
        "find . -name *.rs",
        "find . -type f -name *.rs",
        "find sub -maxdepth 2 -not -name x -print",
        "grep -n x a.txt",
        "grep -rin x .",
        "grep -e x a.txt",
        "grep --include=*.rs -r x",
        "rg -n x",
        "rg -i x sub",
        "rg -g *.rs x",
        "cut -d: -f1,3 a.txt",
        "tr a b",
        "basename a/b",
        "dirname a/b",
        "realpath a.txt",
        "file a.txt",
        "sha256sum a.txt",
        "du -sh .",
        "date +%s",
        "date -u",
        "whoami",
        "uname -a",
        "tree -L 2",
        "stat -c %s a.txt",
        "nl a.txt",
        "cat -- -n",
        "cat -",
        "ls agent",
    ] {
        assert_eq!(judged(&place, &words(text)), Ok(()), "{text}");
    }
}

#[test]
fn what_writes_runs_or_leads_out_is_refused() {
    let place = Place::new();
    for text in [
        "find . -exec sh",
        "find . -delete",
        "find . -fprint x",
        "find . -ok x",
        "find -L . -name x",
        "find . -newer /etc/passwd",
        "rg --pre ./e x",
        "rg --pre=./e x",
        "rg -nz x",
        "rg -fx",
        "rg --search-zip x",
        "sed -i s/a/b/ f",
        "sed s/a/b/ f",
        "sed -n 1w f",
        "sed -n 1p -f e",
        "sed -n 1,5p;w f",
        "sed -ni 1p f",
        "sed -n 0p f",
        "wc --files0-from=x",
        "wc --lines=1 x",
        "date -s now",
        "date -f x",
        "tail -f x",
        "tail --follow x",
        "ls --sort=time x",
        "cat /etc/passwd",
        "cat ../x",
        "cat sub/../../x",
        "tree -o x",
        "uniq a b",
        "sort a",
        "git status",
        "awk 1",
        "env x",
        "env A=b sh",
        "pwd x",
        "file -C",
        "file -f x",
        "grep -f x y",
        "grep -P x y",
        "grep --file=x y",
        "xxd a b",
        "/bin/ls",
        "./ls",
        "LS",
        "ls\0",
        "head -n x f",
        "head --lin=5 f",
        "du --files0-from=x",
        "stat --printf=x f",
        "cut --output-delimiter=x f",
        "-la",
        "",
        "echo x",
    ] {
        assert!(judged(&place, &words(text)).is_err(), "{text}");
    }
    assert_eq!(judged(&place, &[]), Err(NotALook::Nothing));
}

/// Runs a command in the read-only hand, whatever the classifier says; what it told.
fn forced(sandbox: &Sandbox, argv: &[String]) -> String {
    let mut command = Command::new(argv, at("."));
    command.limits.wall = Duration::from_millis(1500);
    command.limits.grace = Duration::from_millis(100);
    command.limits.output_bytes = Some(1 << 20);
    match sandbox.run(command) {
        Ok(running) => {
            let finished = running.wait();
            finished.stdout.text() + &finished.stderr.text()
        }
        Err(refused) => refused.to_string(),
    }
}

/// Once as it is judged, and once with the classifier forced open, when the mounts alone must hold.
#[test]
fn no_attack_on_the_read_only_hand_gets_through() {
    let place = Place::new();
    for name in ["a", "b", "c", "f"] {
        place.put(name, "one\n");
    }
    place.put("evil", "#!/bin/sh\ntouch /workspace/PWNED\n");
    place.put("ls", "#!/bin/sh\ntouch /workspace/PWNED\n");
    let names = || std::fs::read_dir(place.host()).unwrap().count();
    let sandbox = open_read_only(&place);
    let before = names();
    let mut tried = 0;
    for attack in attacks("bash_ro") {
        let Some(argv) = attack.input["call"]["args"]["argv"].as_array() else { continue };
        let Some(argv) = argv.iter().map(text).collect::<Option<Vec<_>>>() else { continue };
        let judged = judged(&place, &argv);
        match attack.verdict.as_str() {
            "deny" => assert!(judged.is_err(), "{}: {argv:?} is taken", attack.id),
            "contained" if judged.is_err() => assert!(
                matches!(judged, Err(NotALook::Outside { .. } | NotALook::Operand { .. })),
                "{}: {judged:?}",
                attack.id
            ),
            _ => {}
        }
        let told = forced(&sandbox, &argv);
        assert!(!told.contains(CANARY) && !told.contains("root:x:"), "{}: {told}", attack.id);
        assert_eq!(names(), before, "{}: something was written", attack.id);
        tried += 1;
    }
    assert!(tried >= 75, "only {tried} were tried");
    place.check_canaries();
}

#[test]
fn a_variable_that_changes_what_programs_do_is_refused() {
    let mut variables = Variables::new();
    for attack in attacks("env") {
        let args = &attack.input["call"]["args"];
        let Some(name) = args["name"].as_str() else { continue };
        let value = text(&args["value"]).unwrap_or_else(|| "x".to_owned());
        assert!(variables.set(name, &value).is_err(), "{}: {name}", attack.id);
    }
    for name in ["LESSOPEN", "http_proxy", "Git_Dir", "BASH_FUNC_ls", "PYTHONPATH", "é", "A-B"] {
        assert!(variables.set(name, "x").is_err(), "{name}");
    }
    assert_eq!(variables, Variables::new());
    variables.set("RUST_LOG", "debug").unwrap();
    assert!(matches!(variables.set("A", "x\0y"), Err(VariableError::Nul { .. })));
    for number in 0..4 {
        variables.set(&format!("V{number}"), &"x".repeat(30_000)).unwrap();
    }
    assert!(matches!(
        variables.set("V4", &"x".repeat(32_000)),
        Err(VariableError::TooLarge { .. })
    ));
    assert!(variables.unset("V1") && !variables.unset("V1"));
}

// D26
#[test]
fn d26_a_text_with_anything_for_a_shell_to_do_is_no_simple_command() {
    for text in [
        "cat a > b",
        "cat x | sh",
        "cat $(id)",
        "head f && rm -rf g",
        "cat a; rm -rf /",
        "cat `id`",
        "cat *.rs",
        "cat ?",
        "cat [ab]",
        "cat {a,b}",
        "cat ~",
        "cat $HOME",
        "cat \"$HOME\"",
        "cat a\\ b",
        "cat a\nid",
        "cat a\rid",
        "A=b cat a",
        "cat a &",
        "! cat a",
        "cat <a",
        "cat <<E",
        "# x",
        "cat a #x",
        "time cat a",
        "(cat a)",
        "{ cat a; }",
        "cat \"`id`\"",
        "cat 'a",
        "cat \"a",
        "if true",
        "cat a||b",
        "cat $'a'",
        "cat !$",
        "",
        " ",
        "cat \u{a0}a",
        "\"\" a",
        "cat a\0b",
        "cat a\u{202e}b",
    ] {
        assert_eq!(simple_command(text), None, "{text:?}");
    }
    for text in ["true && ".repeat(60), "env ".repeat(200), "a".repeat(5000)] {
        assert_eq!(simple_command(&text), None);
    }
    assert_eq!(simple_command(" cat  'a b' \"c d\"e=f ").unwrap(), ["cat", "a b", "c de=f"]);
}

#[test]
fn a_plain_command_amounts_to_a_file_operation_where_that_is_sure() {
    let projected = |text: &str| simple_command(text).and_then(|words| project(&words));
    let read = |window| Some(Projection::Read { path: "f".to_owned(), window });
    assert_eq!(projected("cat f"), read(Window::Whole));
    assert_eq!(projected("head -n 3 f"), read(Window::Lines { first: 1, count: 3 }));
    assert_eq!(projected("tail f"), read(Window::Tail { count: 10 }));
    assert_eq!(projected("sed -n '2,5p' f"), read(Window::Lines { first: 2, count: 4 }));
    assert_eq!(projected("wc -l f"), Some(Projection::CountLines { path: "f".to_owned() }));
    let glob = |pattern: &str, kind| {
        Some(Projection::Glob { path: ".".to_owned(), pattern: pattern.to_owned(), kind })
    };
    assert_eq!(projected("ls -la"), glob("*", None));
    assert_eq!(projected("find . -type f -name '*.rs'"), glob("*.rs", Some(Kind::File)));
    let grep = |regex| {
        Some(Projection::Grep {
            path: ".".to_owned(),
            query: "x".to_owned(),
            regex,
            any_case: true,
        })
    };
    assert_eq!(projected("grep -rni x"), grep(false));
    assert_eq!(projected("rg -i x"), grep(true));
    for text in [
        "sed -n '1,5p;w out' a",
        "cat -n f",
        "cat f g",
        "cat -- f",
        "head -n -3 f",
        "grep 'a*' f",
        "grep x",
        "find . -delete",
        "ls -R",
        "rg --pre e x",
        "cat a > b",
        "head -c 5 f",
    ] {
        assert_eq!(projected(text), None, "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// A real bash splits what we take into the very same words.
    #[test]
    fn bash_agrees_on_the_words(texts in prop::collection::vec("[ab ./'\"$*?;|&<>(){}~#!=\\\\\t\n-]{1,12}", 40)) {
        let place = Place::new();
        let taken: Vec<_> = texts.iter().filter_map(|text| Some((text, simple_command(text)?))).collect();
        let script: String = taken.iter().map(|(text, _)| format!("printf '%s\\0' {text}; printf '\\n'\n")).collect();
        let sandbox = open_read_only(&place);
        let told = said(&sandbox.run(Command::script(&script, at("."))).unwrap().wait());
        let expected: String =
            taken.iter().map(|(_, words)| words.iter().map(|word| format!("{word}\0")).collect::<String>() + "\n").collect();
        prop_assert_eq!(told, expected);
    }
}

proptest! {
    /// Whatever the words, judging them neither panics nor takes a program that is not known.
    #[test]
    fn only_known_programs_are_taken(argv in prop::collection::vec("[a-z./=-]{0,8}", 0..4)) {
        let place = Place::new();
        if judged(&place, &argv).is_ok() {
            prop_assert!(haft_sandbox::classify::programs().any(|name| name == argv[0]));
        }
    }
}
