//! `haft bench`: that everything it says it measures is measured, and can be read by a script.

use serde_json::Value;

use crate::torture::haft;

fn figures(arguments: &[&str]) -> Value {
    let output = haft(&[&["bench"], arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn everything_is_measured_in_one_run_beside_its_floor() {
    let short = ["--rounds", "1", "--round-ms", "50", "--events", "200", "--count", "2000"];
    let figures = figures(&[&["all"], &short[..]].concat());
    for ratio in ["/steps/ratio", "/resolve/ratio", "/revival/ratio", "/parked/resolve_p99_ratio"] {
        let found = figures.pointer(ratio).and_then(Value::as_f64);
        assert!(found.is_some_and(|found| found > 0.0), "{ratio}: {found:?}");
    }
    assert_eq!(figures["parked"]["parked"], 2000);
    let resolved = 500;
    assert_eq!(figures["parked"]["fell_due_together"], 1000 - resolved);
    assert_eq!(figures["steps"]["backend"], "SQLite");
}

#[test]
fn nothing_is_lost_and_every_call_is_paired_under_load() {
    let small = ["--sessions", "20", "--calls", "5", "--waves", "1", "--rounds", "1"];
    let figures = figures(&[&["load"], &small[..], &["--round-ms", "200"]].concat());
    assert_eq!(
        (&figures["calls"], &figures["lost"], &figures["unpaired"]),
        (&100.into(), &0.into(), &0.into())
    );
    for figure in ["/resolve_p99_ms", "/calls_per_second", "/memory_mb/0", "/ratio"] {
        let found = figures.pointer(figure).and_then(Value::as_f64);
        assert!(found.is_some_and(|found| found > 0.0), "{figure}: {found:?}");
    }
}

#[test]
fn people_are_told_what_was_compared_with_what() {
    let output = haft(&["bench", "revival", "--events", "100"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("times the short one"), "{told}");
}
