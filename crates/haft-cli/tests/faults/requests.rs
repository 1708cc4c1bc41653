//! Faults between a client and the server: kills around an answer, connections that break, readers
//! that read nothing.

use std::io::Read as _;
use std::time::Duration;

use crate::judge::{self, ObservedWord};
use crate::ledger::{Request, RetryBy, Step};
use crate::serving::Serving;
use crate::stage::{Fault, Stage};

pub(crate) fn faults() -> Vec<Fault> {
    vec![
        Fault::on_both("server is killed around its answers", killed),
        Fault::on_both("client goes away without the answer", gone),
        Fault::on_both("reader of a stream stalls", stalled),
    ]
}

/// The steps of one round: a message and a session each way, a proposal and an approval.
fn steps(stage: &mut Stage<'_>, server: &Serving) -> [Step; 6] {
    let session = stage.session(server);
    let ledger = &mut stage.ledger;
    let words = [RetryBy::Key, RetryBy::Count].map(|again| {
        [Step::Say(ledger.message(&session, again, 0)), Step::Say(ledger.open(again))]
    });
    let proposed = Step::Propose(ledger.call("pay"));
    let approved = Step::Approve(stage.parked(server, "pay"));
    [words[0][0], words[0][1], words[1][0], words[1][1], proposed, approved]
}

/// Kills the server when its answer begins, or a moment after the request was sent.
fn killed(stage: &mut Stage<'_>) {
    let mut server = stage.place.start(&[]);
    for round in 0..stage.extent.of(1, 8) {
        for (at, step) in steps(stage, &server).into_iter().enumerate() {
            let Request { path, headers, body } = stage.ledger.request(step, &server.key);
            let mut connection = server.connect("POST", &path, &headers, &body);
            // However far it comes within this time, it is done once in the end.
            match (round as usize + at) % 3 {
                0 => connection.read_exact(&mut [0; 1]).unwrap(),
                n => std::thread::sleep(Duration::from_millis([2, 9][n - 1])),
            }
            drop(server);
            server = stage.place.start(&[]);
            stage.ledger.insist(&server, step);
        }
    }
    stage.conclude(server);
}

/// Sends requests whose answers nobody waits for, then sends them again.
fn gone(stage: &mut Stage<'_>) {
    let server = stage.place.start(&[]);
    for _ in 0..stage.extent.of(3, 30) {
        for step in steps(stage, &server) {
            let Request { path, headers, body } = stage.ledger.request(step, &server.key);
            drop(server.connect("POST", &path, &headers, &body));
            stage.ledger.insist(&server, step);
        }
    }
    stage.conclude(server);
}

/// A reader that takes nothing is told so, and reads on without loss.
fn stalled(stage: &mut Stage<'_>) {
    let server = stage.place.start(&["--stream-stall", "1s"]);
    let session = stage.session(&server);
    for _ in 0..stage.extent.of(24, 60) {
        let message = stage.ledger.message(&session, RetryBy::Key, 500_000);
        stage.ledger.insist(&server, Step::Say(message));
    }
    let path = format!("/haft/v1/sessions/{session}/stream");
    let ended = "haft_streams_ended_slow_total";
    let mut slow = server.stream(&path, None);
    stage.notices("a reader that takes nothing is not ended", || server.metric(ended) > 0);
    let mut read = slow.until("error");
    let reason = read.pop().unwrap();
    if !reason.data.contains("slow_reader_error") {
        stage.silent(&format!("the reader was ended without the reason: {}", reason.data));
    }
    let last = read.last().and_then(|event| event.id.clone());
    let tokens = stage.ledger.messages();
    let mut read: Vec<String> = read.into_iter().map(|event| beginning(&event.data)).collect();
    let mut resumed = server.stream(&path, last.as_deref());
    while !tokens.iter().all(|token| read.iter().any(|text| text.contains(token))) {
        let event = resumed.next().expect("a stream of a session goes on");
        read.push(beginning(&event.data));
    }
    for token in tokens {
        let recorded = read.iter().filter(|text| text.contains(&token)).count();
        let seen = ObservedWord { token, is_acknowledged: true, recorded };
        stage.row.broken.extend(judge::word(&seen));
    }
    stage.conclude(server);
}

/// As much of an event as has its token.
fn beginning(data: &str) -> String {
    data.chars().take(500).collect()
}
