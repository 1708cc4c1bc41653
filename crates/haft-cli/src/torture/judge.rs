//! The judge: compares the world with the log, after everything has settled.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use haft_core::CallId;
use haft_core::session::{Decided, Event, RecoveryPlan};
use haft_core::tool::Recovery;
use haft_store::Store;
use serde::Serialize;

use super::world::World;
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
    pub(super) calls_reported_in_doubt: usize,
    pub(super) calls_run_again_safely: usize,
    pub(super) violations: Vec<String>,
}

impl Findings {
    /// A run in which hardly anything happened proves nothing.
    pub(super) fn holds(&self) -> bool {
        let enough = self.calls_that_worked * 2 >= self.calls && self.calls > 0;
        enough && self.approvals_acknowledged > 0 && self.violations.is_empty()
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sessions, calls, calls_that_worked, effects, .. } = self;
        writeln!(
            f,
            "{calls} calls in {sessions} sessions, {calls_that_worked} worked, {effects} effects in the world"
        )?;
        writeln!(f, "{} approvals acknowledged", self.approvals_acknowledged)?;
        let (doubt, again) = (self.calls_reported_in_doubt, self.calls_run_again_safely);
        writeln!(f, "{doubt} calls reported in doubt, {again} run again because that is safe")?;
        match self.violations.as_slice() {
            [] if self.holds() => {
                write!(f, "nothing lost, nothing repeated, every call has one outcome")
            }
            [] => write!(f, "too little happened to prove anything"),
            violations => write!(f, "violations:\n  {}", violations.join("\n  ")),
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
    in_doubt: bool,
    rerun: bool,
}

pub(super) fn judge(place: &Place, world: &World) -> anyhow::Result<Findings> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = place.open().await?;
        let mut findings = Findings::default();
        let mut told = BTreeMap::new();
        for session in all_sessions(&store).await? {
            findings.sessions += 1;
            if let Err(error) = store.verify(session).await {
                findings.violations.push(format!("{session}: the journal is broken: {error}"));
            }
            hear(&events(&store, session).await?, &mut told);
        }
        compare(&told, world, &mut findings);
        Ok(findings)
    })
}

async fn events(store: &Store, session: haft_core::SessionId) -> anyhow::Result<Vec<Event>> {
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
        match event {
            Event::CallProposed { call, contract, .. } => {
                let recovery = contract.recovery;
                let (outcomes, starts, approved) = (0, 0, 0);
                let (worked, in_doubt, rerun) = (false, false, false);
                let flags = Told { recovery, outcomes, starts, worked, approved, in_doubt, rerun };
                told.insert(*call, flags);
            }
            Event::CallStarted { call, .. } => {
                if let Some(told) = told.get_mut(call) {
                    told.starts += 1;
                }
            }
            Event::CallFinished { outcome } => {
                if let Some(told) = told.get_mut(&outcome.call) {
                    told.outcomes += 1;
                    told.worked |= outcome.is_ok();
                }
            }
            Event::CallResolved { call, decision: Decided::Approve { .. }, .. } => {
                if let Some(told) = told.get_mut(call) {
                    told.approved += 1;
                }
            }
            Event::CallInterrupted { call, plan, .. } => {
                if let Some(told) = told.get_mut(call) {
                    told.in_doubt |= *plan != RecoveryPlan::Rerun;
                    told.rerun |= *plan == RecoveryPlan::Rerun;
                }
            }
            _ => {}
        }
    }
}

fn compare(told: &BTreeMap<CallId, Told>, world: &World, findings: &mut Findings) {
    let known: BTreeSet<_> = told.keys().collect();
    let strangers = world.effects.keys().filter(|call| !known.contains(call));
    let strangers: Vec<_> =
        strangers.map(|call| format!("{call}: an effect without a call")).collect();
    findings.violations.extend(strangers);
    findings.calls = told.len();
    findings.effects = world.effects.values().sum();
    findings.approvals_acknowledged = world.acknowledged.len();
    for (call, told) in told {
        findings.calls_that_worked += usize::from(told.worked);
        findings.calls_reported_in_doubt += usize::from(told.in_doubt);
        findings.calls_run_again_safely += usize::from(told.rerun);
        let effects = world.effects.get(call).copied().unwrap_or(0);
        let acknowledged = world.acknowledged.contains_key(call);
        let wrong = wrongs(told, effects, acknowledged);
        findings.violations.extend(wrong.into_iter().map(|wrong| format!("{call}: {wrong}")));
    }
}

fn wrongs(told: &Told, effects: u32, acknowledged: bool) -> Vec<String> {
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
    if told.worked && effects == 0 {
        wrongs.push("reported as done, and nothing happened".to_owned());
    }
    if acknowledged && told.approved == 0 {
        wrongs.push("an acknowledged approval is lost".to_owned());
    }
    if told.approved > 1 {
        wrongs.push(format!("approved {} times", told.approved));
    }
    wrongs
}
