//! Tools that end without a result: nobody can tell whether they took effect, so nobody may.

use serde_json::json;

use crate::judge::{CallStatus, Violation};
use crate::serving::Serving;
use crate::stage::{Fault, Stage, until};

pub(crate) fn faults() -> Vec<Fault> {
    vec![
        Fault::on_both("tool runs out of time", out_of_time),
        Fault::on_both("tool is cancelled while it runs", cancelled),
        Fault::on_both("connection to the tool is lost", connection_lost),
        Fault::on_both("server is killed while a tool runs", killed),
    ]
}

/// Lets two calls run that never answer; one of them took effect.
fn hanging(stage: &mut Stage<'_>, server: &Serving) -> [usize; 2] {
    ["pay_and_hang", "hang"].map(|tool| {
        let call = stage.approved(server, tool);
        until("the tool is entered", || {
            stage.place.was_entered(stage.ledger.token(call)).then_some(())
        });
        call
    })
}

/// What never answered is in doubt, and stays so until a person settles it.
fn are_in_doubt(stage: &mut Stage<'_>, server: &Serving, calls: &[usize]) {
    let seen = stage.ledger.calls_seen(server, &stage.place);
    for call in calls.iter().map(|call| &seen[*call]) {
        if call.told != CallStatus::InDoubt {
            let what = format!("{} ended without a result, and is {:?}", call.token, call.told);
            stage.row.broken.push(Violation::Certain(what));
        }
    }
}

fn out_of_time(stage: &mut Stage<'_>) {
    stage.place.mount_counter(2);
    let server = stage.place.start(&[]);
    let mut calls = Vec::new();
    for _ in 0..stage.extent.of(1, 10) {
        calls.extend(hanging(stage, &server));
    }
    are_in_doubt(stage, &server, &calls);
    // What comes afterwards has all the time that it needs.
    drop(server);
    stage.place.mount_counter(60);
    let server = stage.place.start(&[]);
    stage.conclude(server);
}

fn cancelled(stage: &mut Stage<'_>) {
    let server = stage.place.start(&[]);
    let mut calls = Vec::new();
    for _ in 0..stage.extent.of(1, 10) {
        let hanging = hanging(stage, &server);
        for call in hanging {
            let (session, id) = stage.ledger.ids(call).unwrap();
            server.post(&format!("/haft/v1/sessions/{session}/calls/{id}/cancel"), &json!({}));
        }
        calls.extend(hanging);
    }
    are_in_doubt(stage, &server, &calls);
    stage.conclude(server);
}

fn connection_lost(stage: &mut Stage<'_>) {
    let server = stage.place.start(&[]);
    let mut calls = Vec::new();
    for _ in 0..stage.extent.of(1, 10) {
        for tool in ["pay_and_die", "die"] {
            let call = stage.approved(&server, tool);
            until("the tool is entered", || {
                stage.place.was_entered(stage.ledger.token(call)).then_some(())
            });
            calls.push(call);
            // It is mounted again before it is called again.
            stage.notices("the counter comes back", || {
                let shown = server.get("/haft/v1/mcp/servers/counter");
                shown["health"]["state"] == "up"
            });
        }
    }
    are_in_doubt(stage, &server, &calls);
    stage.conclude(server);
}

fn killed(stage: &mut Stage<'_>) {
    let mut server = stage.place.start(&[]);
    let mut calls = Vec::new();
    for _ in 0..stage.extent.of(2, 20) {
        calls.extend(hanging(stage, &server));
        drop(server);
        server = stage.place.start(&[]);
    }
    are_in_doubt(stage, &server, &calls);
    stage.conclude(server);
}
