//! The judge: compares the world with the log, after everything has settled.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use haft_core::session::{Decided, Event, RecoveryPlan, VerifyFinding};
use haft_core::tool::Recovery;
use haft_core::{CallId, CallResult, ErrorClass, SessionId};
use haft_store::Store;
use serde::Serialize;

use super::world::{Ack, World};
use crate::audit::all_sessions;
use crate::place::Place;

/// What was found: the violations, and what there was to violate.
#[derive(Debug, Default, Serialize)]
pub(super) struct Findings {
    pub(super) sessions: usize,
    pub(super) calls: usize,
    pub(super) calls_that_worked: usize,
    pub(super) effects: u32,
    pub(super) approvals_acknowledged: usize,
    pub(super) settlements_acknowledged: usize,
    pub(super) proposals_acknowledged: usize,
    pub(super) calls_verified: usize,
    pub(super) calls_retried: usize,
    pub(super) calls_reported_in_doubt: usize,
    pub(super) calls_run_again_safely: usize,
    pub(super) calls_out_of_time: usize,
    pub(super) calls_stopped: usize,
    pub(super) connections_lost: usize,
    pub(super) violations: Vec<String>,
}

impl Findings {
    pub(super) fn holds(&self) -> bool {
        self.is_enough() && self.violations.is_empty()
    }

    /// A run in which hardly anything happened proves nothing.
    fn is_enough(&self) -> bool {
        self.calls > 0
            && self.calls_that_worked * 2 >= self.calls
            && self.approvals_acknowledged > 0
            && self.proposals_acknowledged > 0
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            (self.calls, "calls were made"),
            (self.calls_that_worked, "of them worked"),
            (self.effects as usize, "effects are in the world: more only where repeating is safe"),
            (self.approvals_acknowledged, "approvals were acknowledged"),
            (self.calls_run_again_safely, "calls ran again after a crash, because that is safe"),
            (self.calls_verified, "were verified by their own tool"),
            (self.calls_retried, "were tried again after a failure"),
            (self.calls_out_of_time, "ran out of time and may have taken effect"),
            (self.calls_stopped, "were told to stop and may have taken effect"),
            (self.connections_lost, "lost their connection and may have taken effect"),
            (self.calls_reported_in_doubt, "were reported as in doubt, for a person"),
            (self.settlements_acknowledged, "settlements were acknowledged"),
        ];
        writeln!(f, "{} sessions:", self.sessions)?;
        for (n, what) in rows {
            writeln!(f, "{n:>7}  {what}")?;
        }
        match self.violations.as_slice() {
            [] if self.holds() => {
                write!(
                    f,
                    "nothing lost, nothing repeated, nothing claimed that is not known, \
                     every call has one outcome"
                )
            }
            [] => write!(f, "too little happened to prove anything; try more --kills"),
            violations => {
                write!(f, "{} violations:\n  {}", violations.len(), violations.join("\n  "))
            }
        }
    }
}

/// What the log says of one call.
#[derive(Debug)]
struct Told {
    recovery: Recovery,
    outcomes: u32,
    starts: u32,
    worked: bool,
    approved: u32,
    settled: u32,
    in_doubt: bool,
    rerun: bool,
    verified: bool,
    retried: bool,
    /// How often someone who knows said that it did not happen and shall run.
    sent_again: u32,
    /// How its first attempt without a result ended.
    unknown: Option<ErrorClass>,
    /// How it failed, if it did.
    failed: Option<ErrorClass>,
}

impl Told {
    fn proposed(recovery: Recovery) -> Self {
        Self {
            recovery,
            outcomes: 0,
            starts: 0,
            worked: false,
            approved: 0,
            settled: 0,
            in_doubt: false,
            rerun: false,
            verified: false,
            retried: false,
            sent_again: 0,
            unknown: None,
            failed: None,
        }
    }
}

pub(super) fn judge(place: &Place, world: &World) -> anyhow::Result<Findings> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = place.open().await?;
        let mut findings = Findings::default();
        let mut told = BTreeMap::new();
        let sessions = all_sessions(&store).await?;
        findings.sessions = sessions.len();
        for session in &sessions {
            let session = *session;
            if let Err(error) = store.verify(session).await {
                findings.violations.push(format!("{session}: the journal is broken: {error}"));
            }
            hear(&events(&store, session).await?, &mut told);
        }
        compare(&told, world, &mut findings);
        findings.violations.extend(lost(&sessions.into_iter().collect(), &told, world));
        Ok(findings)
    })
}

async fn events(store: &Store, session: SessionId) -> anyhow::Result<Vec<Event>> {
    let mut events = Vec::new();
    let mut after = 0;
    loop {
        let entries = store.entries(session, after, 1_000).await?;
        let Some(last) = entries.last() else { return Ok(events) };
        after = last.seq;
        for entry in &entries {
            events.push(entry.event()?);
        }
    }
}

fn hear(events: &[Event], told: &mut BTreeMap<CallId, Told>) {
    for event in events {
        if let Event::CallProposed { call, contract, .. } = event {
            told.insert(*call, Told::proposed(contract.recovery));
        }
        let call = match event {
            Event::CallStarted { call, .. }
            | Event::CallResolved { call, .. }
            | Event::CallVerified { call, .. }
            | Event::CallRetryScheduled { call, .. }
            | Event::CallInterrupted { call, .. } => call,
            Event::CallFinished { outcome } => &outcome.call,
            _ => continue,
        };
        if let Some(told) = told.get_mut(call) {
            hear_of_call(event, told);
        }
    }
}

fn hear_of_call(event: &Event, told: &mut Told) {
    match event {
        Event::CallStarted { .. } => told.starts += 1,
        Event::CallFinished { outcome } => {
            told.outcomes += 1;
            told.worked |= outcome.is_ok();
            if let CallResult::Err(failure) = &outcome.result {
                told.failed = Some(failure.class);
            }
        }
        Event::CallResolved { decision: Decided::Approve { .. }, .. } => told.approved += 1,
        Event::CallResolved { decision: Decided::Happened { .. }, .. } => told.settled += 1,
        Event::CallResolved { decision: Decided::RunAgain, .. } => {
            told.settled += 1;
            told.sent_again += 1;
        }
        Event::CallInterrupted { plan, failure, .. } => {
            told.unknown = told.unknown.or_else(|| failure.as_ref().map(|failure| failure.class));
            told.in_doubt |= *plan != RecoveryPlan::Rerun;
            told.rerun |= *plan == RecoveryPlan::Rerun;
        }
        Event::CallVerified { finding, .. } => {
            told.verified = true;
            told.sent_again += u32::from(*finding == VerifyFinding::Absent);
        }
        Event::CallRetryScheduled { .. } => told.retried = true,
        _ => {}
    }
}

/// What was acknowledged and is not in the log.
fn lost(
    sessions: &BTreeSet<SessionId>,
    told: &BTreeMap<CallId, Told>,
    world: &World,
) -> Vec<String> {
    let is_there = |ack: &Ack, times: u32| match ack {
        Ack::Opened(session) => sessions.contains(session),
        Ack::Proposed(call) => told.contains_key(call),
        Ack::Approved(call) => told.get(call).is_some_and(|told| told.approved >= times),
        Ack::Settled(call) => told.get(call).is_some_and(|told| told.settled >= times),
    };
    let acknowledged = world.acknowledged.iter();
    let lost = acknowledged.filter(|(ack, times)| !is_there(ack, **times));
    lost.map(|(ack, _)| format!("acknowledged and lost: {ack}")).collect()
}

fn compare(told: &BTreeMap<CallId, Told>, world: &World, findings: &mut Findings) {
    let known: BTreeSet<_> = told.keys().collect();
    let strangers = world.effects.keys().filter(|call| !known.contains(call));
    let strangers: Vec<_> =
        strangers.map(|call| format!("{call}: an effect without a call")).collect();
    findings.violations.extend(strangers);
    findings.calls = told.len();
    findings.effects = world.effects.values().sum();
    let acknowledged = |is: fn(&Ack) -> bool| world.acknowledged.keys().filter(|a| is(a)).count();
    findings.approvals_acknowledged = acknowledged(|ack| matches!(ack, Ack::Approved(_)));
    findings.settlements_acknowledged = acknowledged(|ack| matches!(ack, Ack::Settled(_)));
    findings.proposals_acknowledged = acknowledged(|ack| matches!(ack, Ack::Proposed(_)));
    for (call, told) in told {
        findings.calls_that_worked += usize::from(told.worked);
        findings.calls_reported_in_doubt += usize::from(told.in_doubt);
        findings.calls_run_again_safely += usize::from(told.rerun);
        let effects = world.effects.get(call).copied().unwrap_or(0);
        findings.calls_verified += usize::from(told.verified);
        findings.calls_retried += usize::from(told.retried);
        match told.unknown {
            Some(ErrorClass::Timeout) => findings.calls_out_of_time += 1,
            Some(ErrorClass::Interrupted) => findings.connections_lost += 1,
            Some(_) => findings.calls_stopped += 1,
            None => {}
        }
        let wrong = wrongs(told, effects);
        findings.violations.extend(wrong.into_iter().map(|wrong| format!("{call}: {wrong}")));
    }
}

fn wrongs(told: &Told, effects: u32) -> Vec<String> {
    let mut wrongs = Vec::new();
    if told.outcomes != 1 {
        wrongs.push(format!("{} outcomes", told.outcomes));
    }
    let repeatable = matches!(told.recovery, Recovery::Rerun | Recovery::RerunKeyed);
    if effects > 1 && !repeatable {
        wrongs.push(format!("{effects} effects of a call that must not be repeated"));
    }
    if effects > 1 && repeatable && !told.rerun {
        wrongs.push(format!("{effects} effects, and the log knows of one run"));
    }
    if effects > told.starts {
        wrongs.push(format!("{effects} effects of {} starts", told.starts));
    }
    if effects > 0 && !told.worked && !told.in_doubt {
        wrongs.push("it happened, and was neither reported as done nor as in doubt".to_owned());
    }
    if let Some(class) = told.failed.filter(|class| *class != ErrorClass::Interrupted)
        && effects > 0
    {
        wrongs.push(format!("it happened, and its outcome `{class}` claims that it did not"));
    }
    if !repeatable && told.starts > 1 + told.sent_again {
        wrongs.push(format!("started {} times, and nobody said so", told.starts));
    }
    if told.worked && effects == 0 {
        wrongs.push("reported as done, and nothing happened".to_owned());
    }
    if told.approved > 1 {
        wrongs.push(format!("approved {} times", told.approved));
    }
    wrongs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> CallId {
        CallId::from_bits(1)
    }

    #[test]
    fn a_run_in_which_hardly_anything_worked_proves_nothing() {
        assert!(!Findings::default().holds());
        let enough = Findings {
            calls: 10,
            calls_that_worked: 5,
            approvals_acknowledged: 1,
            proposals_acknowledged: 1,
            ..Findings::default()
        };
        assert!(enough.holds());
        assert!(!Findings { calls_that_worked: 4, ..enough }.holds());
    }

    #[test]
    fn whatever_was_acknowledged_must_be_there() {
        let acks = [
            Ack::Opened(SessionId::from_bits(1)),
            Ack::Proposed(call()),
            Ack::Approved(call()),
            Ack::Settled(call()),
        ];
        let acknowledged = acks.iter().map(|ack| (*ack, 1)).collect();
        let world = World { acknowledged, ..World::default() };
        assert_eq!(lost(&BTreeSet::new(), &BTreeMap::new(), &world).len(), 4);
        let told = Told { approved: 1, settled: 1, ..Told::proposed(Recovery::Ask) };
        let sessions = [SessionId::from_bits(1)].into();
        assert_eq!(lost(&sessions, &BTreeMap::from([(call(), told)]), &world), [""; 0]);
    }

    #[test]
    fn an_unsafe_call_that_took_effect_twice_is_a_violation() {
        let told = Told { outcomes: 1, starts: 2, worked: true, ..Told::proposed(Recovery::Ask) };
        let told = Told { sent_again: 1, ..told };
        assert_eq!(wrongs(&told, 1), [""; 0]);
        assert_eq!(wrongs(&told, 2), ["2 effects of a call that must not be repeated"]);
        let by_itself = Told { sent_again: 0, ..told };
        assert_eq!(wrongs(&by_itself, 1), ["started 2 times, and nobody said so"]);
    }

    #[test]
    fn an_outcome_that_claims_what_is_not_so_is_a_violation() {
        let failed = |class| Told {
            outcomes: 1,
            starts: 1,
            in_doubt: true,
            failed: Some(class),
            ..Told::proposed(Recovery::Ask)
        };
        let claim = ["it happened, and its outcome `timeout` claims that it did not"];
        assert_eq!(wrongs(&failed(ErrorClass::Timeout), 1), claim);
        assert_eq!(wrongs(&failed(ErrorClass::Timeout), 0), [""; 0]);
        assert_eq!(wrongs(&failed(ErrorClass::Interrupted), 1), [""; 0]);
    }
}
