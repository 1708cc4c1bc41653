//! Kills at every boundary between deciding, storing, telling and doing, and nodes that are frozen
//! past their leases: `haft torture`, which counts effects and acknowledgements outside as well.

use serde_json::Value;

use crate::judge::Violation;
use crate::stage::{Fault, Stage};

pub(crate) fn faults() -> Vec<Fault> {
    vec![
        Fault::on_both("SIGKILL at boundaries and at random", one_node),
        Fault::on_postgresql("nodes killed, and frozen past their leases", three_nodes),
    ]
}

fn one_node(stage: &mut Stage<'_>) {
    let kills = stage.extent.of(20, 400);
    torture(stage, kills, 1);
}

fn three_nodes(stage: &mut Stage<'_>) {
    let kills = stage.extent.of(10, 100);
    torture(stage, kills, 3);
}

fn torture(stage: &mut Stage<'_>, kills: u32, nodes: u32) {
    let (kills, nodes) = (kills.to_string(), nodes.to_string());
    let mut arguments = vec!["torture", "--json", "--kills", &kills, "--nodes", &nodes];
    let url = stage.place.url.clone();
    if let Some(url) = &url {
        arguments.extend(["--database-url", url]);
    }
    let output = stage.place.haft(&arguments);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
        panic!("it reports nothing: {}", String::from_utf8_lossy(&output.stderr))
    });
    let found = &report["findings"];
    let number = |name: &str| found[name].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap();
    let row = &mut stage.row;
    // What is safe to repeat may have happened more often.
    row.effects_wanted = number("calls_that_worked");
    row.effects_counted = number("effects");
    row.acknowledged = ["proposals", "approvals", "settlements"]
        .map(|of| number(&format!("{of}_acknowledged")))
        .iter()
        .sum();
    let violations = found["violations"].as_array().unwrap().iter();
    row.broken.extend(violations.map(|violation| column(violation.as_str().unwrap())));
    if report["holds"] != true && row.broken.is_empty() {
        row.broken.push(Violation::Lost("too little happened to show anything".to_owned()));
    }
}

/// In which column a violation counts.
fn column(violation: &str) -> Violation {
    let text = violation.to_owned();
    let says = |words: &[&str]| words.iter().any(|words| violation.contains(words));
    if says(&["effects of", "started", "approved "]) && !says(&["lost: approved"]) {
        return Violation::Repeated(text);
    }
    if says(&["claims", "reported as done", "neither reported"]) {
        return Violation::Certain(text);
    }
    Violation::Lost(text)
}
