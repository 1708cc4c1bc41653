//! What must hold after a storm.

use std::collections::{BTreeMap, BTreeSet};

use haft_core::journal::{Entry, Head};
use haft_core::session::Event;
use haft_core::{CallId, CallResult, SessionId};
use haft_store::{Page, SessionFilter, Store, Tenant, Which};

use super::Dice;
use super::ledger::{Ledger, Notes};

pub(super) async fn judge(store: &Store, ledger: &Ledger, dice: &mut Dice) {
    let notes = std::mem::take(&mut *ledger.notes());
    let mut logs = BTreeMap::new();
    for session in notes.sessions.keys() {
        let log = store.entries(*session, 0, 100_000).await.unwrap();
        check_log(store, *session, &log, dice).await;
        logs.insert(*session, log);
    }
    let n_worked = check_calls(&notes, &logs);
    check_acknowledged(&notes, &logs);
    for (session, log) in &logs {
        let read = notes.read.get(session).map_or(&[][..], Vec::as_slice);
        assert_eq!(read, &log[..read.len()], "S13: pages are the log, before and after crashes");
    }
    let (ours, theirs) = (ledger.tenant(0), ledger.tenant(1));
    check_artifacts(store, &notes, &logs, [&ours, &theirs]).await;
    check_tenants(store, &notes, [&ours, &theirs]).await;
    check_versions(store, &notes).await;
    // A storm in which nothing works would prove nothing.
    let n_asked = notes.asked_for.len();
    println!(
        "  {} sessions, {n_asked} calls asked for, {} acknowledged, {n_worked} worked, {} resolved, \
         {} versions, {} beaten",
        logs.len(),
        notes.proposed.len(),
        notes.resolved.len(),
        notes.versions.len(),
        notes.n_beaten,
    );
    assert!(n_worked * 4 > notes.proposed.len() && n_worked > 5, "too little has worked");
}

// S2, S13: the log has no gap, and from any place on it is the same in pages of any size.
async fn check_log(store: &Store, session: SessionId, log: &[Entry], dice: &mut Dice) {
    let mut head = Head::EMPTY;
    log.iter().for_each(|entry| head.verify(entry).unwrap());
    assert_eq!(store.verify(session).await, Ok(head), "S2");
    let mut after = u64::from(dice.below(log.len() as u32 + 1));
    let mut pages = Vec::new();
    let start = after;
    loop {
        let page = store.entries(session, after, 1 + dice.below(4)).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.seq;
        pages.extend(page);
    }
    assert_eq!(pages, &log[start as usize..], "S13: the log from entry {start} on");
}

/// Returns how many calls gave a result.
fn check_calls(notes: &Notes, logs: &BTreeMap<SessionId, Vec<Entry>>) -> usize {
    let (mut n_ends, mut n_worked) = (BTreeMap::<CallId, u32>::new(), 0);
    for entry in logs.values().flatten() {
        match entry.event().unwrap() {
            Event::CallFinished { outcome } => {
                *n_ends.entry(outcome.call).or_default() += 1;
                n_worked += usize::from(matches!(outcome.result, CallResult::Ok(_)));
            }
            Event::CallRejected { call, .. } => *n_ends.entry(call).or_default() += 1,
            _ => {}
        }
    }
    assert!(n_ends.values().all(|n| *n == 1), "S3: one outcome for each call, and no second");
    for (_, call) in &notes.proposed {
        assert!(n_ends.contains_key(call), "L1: {call} was taken and came to no end");
    }
    for (call, (_, is_repeatable)) in &notes.asked_for {
        let effects = notes.effects.get(call).copied().unwrap_or(0);
        assert!(*is_repeatable || effects <= 1, "S6: {call} happened {effects} times");
    }
    n_worked
}

// S1, S4: whoever was told that something is recorded finds it, once.
fn check_acknowledged(notes: &Notes, logs: &BTreeMap<SessionId, Vec<Entry>>) {
    let mentions = |session: &SessionId, id: &str| {
        logs[session].iter().filter(|entry| entry.body.contains(id)).count()
    };
    for (session, call) in &notes.proposed {
        assert!(mentions(session, &call.to_string()) > 0, "S1: the proposal of {call} is lost");
    }
    for (session, id) in &notes.resolved {
        assert_eq!(mentions(session, &id.to_string()), 1, "S1, S4: the resolution {id}");
    }
}

// S10, S12: what the log speaks of is there, as it was made, and for its tenant alone.
async fn check_artifacts(
    store: &Store,
    notes: &Notes,
    logs: &BTreeMap<SessionId, Vec<Entry>>,
    tenants: [&Tenant; 2],
) {
    for (session, log) in logs {
        for entry in log {
            let Event::CallFinished { outcome } = entry.event().unwrap() else { continue };
            let CallResult::Ok(output) = &outcome.result else { continue };
            for artifact in &output.artifacts {
                for tenant in tenants {
                    let stored = store.artifact(tenant, artifact.id).await.unwrap();
                    let is_own = notes.sessions[session] == *tenant;
                    assert_eq!(stored.is_some(), is_own, "S10, S12: {} of {session}", artifact.id);
                    let Some(stored) = stored else { continue };
                    let made = format!("{session} {} ", outcome.call);
                    assert!(stored.body.starts_with(made.as_bytes()), "S12: {}", artifact.id);
                }
            }
        }
    }
}

// S10: a list is its tenant's own, and whole.
async fn check_tenants(store: &Store, notes: &Notes, tenants: [&Tenant; 2]) {
    for tenant in tenants {
        let filter = SessionFilter { tenant: Some(tenant.clone()), ..SessionFilter::default() };
        let listed = store.sessions(&filter, &Page::first(10_000)).await.unwrap();
        assert!(listed.iter().all(|session| session.tenant == *tenant), "S10");
        let listed: BTreeSet<_> = listed.iter().map(|session| session.session).collect();
        let own = notes.sessions.iter().filter(|(_, owner)| *owner == tenant);
        assert!(own.into_iter().all(|(session, _)| listed.contains(session)), "S1: a session");
    }
}

// S12: versions never change, none is lost, and of those who write upon the same one, one wins.
async fn check_versions(store: &Store, notes: &Notes) {
    let mut written = BTreeMap::new();
    for (place, number, digest) in &notes.versions {
        let stored = store.version(place, Which::Number(*number)).await.unwrap().unwrap();
        assert_eq!(stored.info.digest, Some(*digest), "S12: {place:?} {number}");
        let whose = format!("{:?}", place);
        let again = written.insert((whose, *number), *digest);
        assert_eq!(again, None, "S12: two writers were told that they wrote {place:?} {number}");
    }
    for (place, ..) in &notes.versions {
        let versions = store.versions(place, &Page::first(10_000)).await.unwrap();
        let numbers: Vec<_> = versions.iter().rev().map(|version| version.number).collect();
        let expected: Vec<_> = (1..=versions.len() as u64).collect();
        assert_eq!(numbers, expected, "S12: {place:?} has no gap");
    }
}
