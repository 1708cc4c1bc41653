//! The journal finds what was changed, left out or moved.

use crate::world::{World, charge, ok};
use haft_core::journal::{Entry, Head, JournalError};
use serde_json::json;

fn log() -> Vec<Entry> {
    let mut world = World::caller();
    let call = world.propose(&charge(), &json!({"cents": 5}));
    world.resolve(call, crate::world::approve()).unwrap();
    world.returns(call, ok("charged")).unwrap();
    world.log
}

fn verify(log: &[Entry]) -> Result<Head, JournalError> {
    let mut head = Head::EMPTY;
    log.iter().try_for_each(|entry| head.verify(entry))?;
    Ok(head)
}

#[test]
fn an_untouched_log_verifies() {
    let log = log();
    assert_eq!(verify(&log).unwrap().seq, log.len() as u64);
}

#[test]
fn a_changed_entry_is_found_whatever_was_changed() {
    let changes: [fn(&mut Entry); 5] = [
        |entry| entry.body = entry.body.replace("charge_card", "refund_card"),
        |entry| entry.at = haft_core::Timestamp::from_ms(1),
        |entry| entry.session = haft_core::SessionId::from_bits(1),
        |entry| entry.format = 0,
        |entry| entry.hash = haft_core::Digest::ZERO,
    ];
    for change in changes {
        let mut log = log();
        change(&mut log[2]);
        assert_eq!(verify(&log), Err(JournalError::Changed { seq: 3 }));
    }
}

#[test]
fn a_missing_or_moved_entry_is_found() {
    let mut missing = log();
    missing.remove(2);
    assert_eq!(verify(&missing), Err(JournalError::OutOfPlace { expected: 3, found: 4 }));
    let mut moved = log();
    moved.swap(2, 3);
    assert_eq!(verify(&moved), Err(JournalError::OutOfPlace { expected: 3, found: 4 }));
    let mut renumbered = log();
    renumbered.remove(2);
    for (place, entry) in renumbered.iter_mut().enumerate() {
        entry.seq = place as u64 + 1;
    }
    assert_eq!(verify(&renumbered), Err(JournalError::Changed { seq: 3 }));
}

#[test]
fn a_newer_or_unreadable_entry_says_so() {
    let mut entry = log().remove(0);
    entry.format = 99;
    let error = entry.event().unwrap_err().to_string();
    assert_eq!(error, "entry 1 has format 99, newer than 1; use a newer haft");
    entry.format = 1;
    entry.body = r#"{"type":"call.teleported"}"#.into();
    let error = entry.event().unwrap_err().to_string();
    assert!(error.contains("`call.teleported`"), "{error}");
}
