//! A shell that stays.

use crate::corpus::{attacks, text};
use crate::place::{CANARY, Place, absolute, at};
use crate::process::launcher;
use haft_sandbox::environment::Variables;
use haft_sandbox::policy::{Limits, Policy};
use haft_sandbox::process::{Exit, Keep, Sink, SinkState};
use haft_sandbox::shell::{End, Executed, Script, Shell, ShellError, ShellState};
use haft_sandbox::virtual_path::VirtualPath;
use std::time::Duration;

/// Longer than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(120);

fn open(place: &Place) -> Shell {
    open_at(place, at("."), Variables::new())
}

fn open_at(place: &Place, cwd: VirtualPath, variables: Variables) -> Shell {
    let policy = Policy::new(place.files.mounts().clone());
    Shell::open(&launcher(), &policy, Limits::WORK, cwd, variables).unwrap()
}

fn run(shell: &Shell, text: &str) -> Executed {
    shell.exec(Script::new(text)).unwrap().wait_for(LONG).unwrap()
}

fn said(shell: &Shell, text: &str) -> String {
    let executed = run(shell, text);
    assert_eq!(executed.end, End::Exited(0), "{text}: {}", executed.stderr.text());
    executed.stdout.text()
}

#[test]
fn directory_exports_and_functions_survive() {
    let place = Place::new();
    let shell = open(&place);
    said(&shell, "cd sub; export GREETING='it is'; f() { echo \"$GREETING $1\"; }; plain=1");
    assert_eq!(said(&shell, "pwd; f me; echo $plain"), "/workspace/sub\nit is me\n1\n");
    assert_eq!(run(&shell, "false").end, End::Exited(1));
    assert_eq!(run(&shell, "(exit 7)").end, End::Exited(7));
    assert_eq!(shell.state(), ShellState::Idle);
}

#[test]
fn what_survives_a_shell_is_restored_in_the_next() {
    let place = Place::new();
    let shell = open(&place);
    let values = ["x\ny", "it's \"q\" $HOME `id` \\", "tab\tand é", ""];
    for (at, value) in values.iter().enumerate() {
        let quoted = value.replace('\'', r"'\''");
        said(&shell, &format!("export V{at}='{quoted}'"));
    }
    let last =
        run(&shell, "mkdir -p $'a\\nb'; cd $'a\\nb'; export LD_PRELOAD=x IFS=y; unset LD_PRELOAD");
    let (cwd, variables) = (last.cwd.unwrap(), last.variables.unwrap());
    assert_eq!(cwd.to_string(), "/workspace/a\\x0ab");
    let kept: Vec<_> = variables.iter().collect();
    assert_eq!(kept, [("V0", values[0]), ("V1", values[1]), ("V2", values[2]), ("V3", "")]);
    drop(shell);
    let fresh = open_at(&place, cwd, variables);
    assert_eq!(
        said(&fresh, "printf '%s|' \"$V0\" \"$V1\" \"$V2\""),
        format!("{}|{}|{}|", values[0], values[1], values[2])
    );
    assert_eq!(said(&fresh, "pwd"), "/workspace/a\nb\n");
    assert_eq!(run(&fresh, "cd /tmp").cwd, Some(absolute("/tmp")));
}

#[test]
fn a_busy_shell_refuses_at_once_shows_what_is_said_and_can_be_interrupted() {
    let place = Place::new();
    let shell = open(&place);
    for text in [
        "echo begun; sleep 1000",
        "echo begun; while :; do :; done",
        "echo begun; while :; do sleep 1000; done",
    ] {
        let executing = shell.exec(Script::new(text)).unwrap();
        while executing.said().unwrap().0.head != b"begun\n" {
            assert_eq!(executing.wait_for(Duration::from_millis(5)), None);
        }
        let command = executing.command();
        assert_eq!(shell.state(), ShellState::Busy { command });
        let refused = shell.exec(Script::new("true")).unwrap_err();
        assert!(
            matches!(refused, ShellError::Busy { command: busy } if busy == command),
            "{refused}"
        );
        shell.interrupt();
        let end = executing.wait_for(LONG).unwrap().end;
        assert!(matches!(end, End::Exited(_)), "{text}: {end:?}");
        assert_eq!(said(&shell, "echo alive"), "alive\n");
    }
}

// D9
#[test]
fn d9_a_command_that_takes_too_long_is_interrupted_or_takes_the_shell_along() {
    let place = Place::new();
    let shell = open(&place);
    let limited = |grace: Duration| Script {
        wall: Duration::from_millis(200),
        grace,
        ..Script::new("sleep 1000")
    };
    let first = shell.exec(limited(LONG)).unwrap().wait_for(LONG).unwrap();
    assert_eq!(first.end, End::TimedOut(130));
    assert_eq!(said(&shell, "echo alive"), "alive\n");
    // Before the time of the command begins, which may not be enough for a trap.
    said(&shell, "trap '' INT TERM");
    let grace = Duration::from_millis(300);
    let stubborn = shell.exec(limited(grace)).unwrap().wait_for(LONG).unwrap();
    assert_eq!(stubborn.end, End::ShellEnded(Exit::Killed));
    assert_eq!(shell.state(), ShellState::Closed { exit: Exit::Killed });
    assert!(matches!(shell.exec(Script::new("true")), Err(ShellError::Closed)));
}

// D10
#[test]
fn d10_output_above_every_cap_leaves_the_shell_alive() {
    let place = Place::new();
    let shell = open(&place);
    let path = place.host().join("whole");
    let mut script = Script::new("seq 1 300000");
    script.keep = Keep { head: 100, tail: 100 };
    script.sink = Some(Sink::new(std::fs::File::create(&path).unwrap(), 1 << 30));
    let executed = shell.exec(script).unwrap().wait_for(LONG).unwrap();
    assert_eq!((executed.end, executed.sink), (End::Exited(0), Some(SinkState::Whole)));
    assert!(executed.stdout.tail.ends_with(b"300000\n"));
    assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 300_000);
    assert_eq!(said(&shell, "printf 'a%.0s' $(seq 1 3000000) | wc -c"), "3000000\n");
}

#[test]
fn what_background_jobs_say_late_is_not_taken_for_the_next_commands_output() {
    let place = Place::new();
    let shell = open(&place);
    assert_eq!(
        said(&shell, "(while ! test -e go; do sleep 0.01; done; echo late; touch gone) & echo now"),
        "now\n"
    );
    assert_eq!(
        said(&shell, "touch go; while ! test -e gone; do sleep 0.01; done; echo next"),
        "next\n"
    );
    assert_eq!(said(&shell, "echo more"), "more\n");
    assert_eq!(shell.background().text(), "late\n");
}

#[test]
fn the_end_of_the_shell_is_seen_at_once() {
    let place = Place::new();
    for (text, exit) in [
        ("exit 7", Exit::Exited(7)),
        ("kill -9 $$", Exit::Signalled(9)),
        ("set -e; false", Exit::Exited(1)),
        ("exec true", Exit::Exited(0)),
    ] {
        let shell = open(&place);
        let executed = run(&shell, &format!("echo last; {text}"));
        assert_eq!(executed.end, End::ShellEnded(exit), "{text}");
        assert_eq!(executed.stdout.text(), "last\n");
    }
}

#[test]
fn a_script_cannot_get_out_of_step_with_its_shell() {
    let place = Place::new();
    let shell = open(&place);
    for text in [
        "echo 'open",
        "cat <<E\nx",
        "cat; read x; echo $?",
        "printf '%s 0 /x\\n' deadbeef",
        "if",
        "}",
        "'",
        "\\",
        "for n in 3 4 5 6 7 8 9 10 11 12 13; do echo 'n 0 /' >&$n; done 2>/dev/null",
        "exec 1>&-",
        "exec 2>/dev/null",
        "exec </dev/zero",
        "PS1='$(id)'; PROMPT_COMMAND='id'",
        "exec 3>&-; exec 4>&-",
        "# only a comment",
        "",
        "break",
        "return",
        "shopt -s extglob; set -u",
    ] {
        run(&shell, text);
        assert_eq!(said(&shell, "echo in step"), "in step\n", "after {text:?}");
    }
    assert!(matches!(shell.exec(Script::new("a\0b")), Err(ShellError::Nul)));
}

/// The corpus's commands for the shell, one after the other, reopening where one ends it.
#[test]
fn no_attack_by_a_shell_that_stays_leaves_the_sandbox() {
    let place = Place::new();
    let mut shell = open(&place);
    let mut tried = 0;
    for attack in attacks("persistent_shell") {
        let Some(command) = text(&attack.input["call"]["args"]["command"]) else { continue };
        let script = Script {
            wall: Duration::from_millis(1500),
            grace: Duration::from_millis(200),
            ..Script::new(command)
        };
        let executed = shell.exec(script).unwrap().wait_for(LONG).unwrap();
        assert!(!executed.stdout.text().contains(CANARY), "{}", attack.id);
        if !matches!(shell.state(), ShellState::Idle) {
            shell = open(&place);
        }
        assert_eq!(said(&shell, "echo in step"), "in step\n", "after {}", attack.id);
        tried += 1;
    }
    assert!(tried >= 14, "only {tried} were tried");
    let other = Place::new();
    said(&shell, "echo A > /tmp/x");
    assert_ne!(run(&open(&other), "cat /tmp/x").end, End::Exited(0), "/tmp is the shell's own");
    place.check_canaries();
}
