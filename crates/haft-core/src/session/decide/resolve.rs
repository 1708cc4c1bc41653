//! Ending a wait: one winner, everyone else is told who and when.

use super::Draft;
use super::attempt::said_to_have_happened;
use super::session::refuse_agent;
use crate::actor::{Actor, ActorKind};
use crate::arguments::Arguments;
use crate::id::{CallId, ResolutionId};
use crate::json::DEPTH_MAX;
use crate::outcome::{CallResult, Directives, ErrorClass, Failure};
use crate::permission::{Report, Verdict};
use crate::session::effect::Reply;
use crate::session::event::Event;
use crate::session::input::{ClientGone, Expired, PolicyFacts, Returned, is_deeper};
use crate::session::refusal::{Refusal, Stale};
use crate::session::resolution::{Edit, Fit, Resolution, Resolved, Settlement};
use crate::session::state::{Call, DecidedBy, Phase};
use crate::session::suspension::{Decided, DecidedKind, SuspendReason, Suspension, SuspensionKind};
use crate::time::Timestamp;

/// Who ends which wait.
struct Resolver {
    id: ResolutionId,
    call: CallId,
    by: Actor,
}

impl Draft {
    pub(super) fn take_resolution(&mut self, resolved: Resolved) -> Result<(), Refusal> {
        let Resolved { id, call, round, by, resolution, policy } = resolved;
        let (decided, found) = self.known(call)?;
        let same = |d: &DecidedBy| d.resolution == Some(id) && resolution.kind() == d.kind;
        let endorsed = found.as_ref().map_or(&[][..], |call| endorsed(call));
        if decided.iter().chain(endorsed).any(same) {
            self.reply = Reply::AlreadyRecorded;
            return Ok(());
        }
        let suspension = awaited(found.map_err(Refusal::Stale)?, self.now)?;
        if let Some(seen) = round.filter(|round| *round != suspension.round) {
            return Err(Refusal::Stale(Stale::OtherRound { seen, current: suspension.round }));
        }
        refuse_agent(&by, "end a wait")?;
        require_kind(suspension.kind, &resolution, decided)?;
        require_own_word(suspension.kind, &by)?;
        let resolver = Resolver { id, call, by };
        match resolution {
            Resolution::Approve { edit, note, grant } => {
                if let Some(grant) = &grant {
                    self.require_grantable(grant)?;
                }
                if self.needs_another(&resolver, edit.as_ref())? {
                    return self.endorse(resolver, note);
                }
                self.approve(&resolver, &policy, edit, note)?;
                grant.map_or(Ok(()), |grant| self.add_grant(*grant))
            }
            Resolution::Deny { note } => self.deny(&resolver, note),
            Resolution::Answer { output, fit } => {
                require_fit(fit)?;
                require_shallow(&CallResult::Ok(output.clone()))?;
                self.decided(&resolver, Decided::Answer { output: output.clone() })?;
                self.finish(call, Returned::from(CallResult::Ok(output)), None)
            }
            Resolution::Result { result, directives, fit } => {
                require_fit(fit)?;
                require_shallow(&result)?;
                let directives = unprivileged(directives);
                let returned = Returned { directives: directives.clone(), ..result.clone().into() };
                self.decided(&resolver, Decided::Result { result, directives })?;
                self.finish(call, returned, None)
            }
            Resolution::Settle(settlement) => self.settle(&resolver, &policy, settlement),
        }
    }

    /// Returns what has been decided about a call, and the call itself if it is in the turn.
    fn known(&self, id: CallId) -> Result<(&[DecidedBy], Result<&Call, Stale>), Refusal> {
        let open = self.require_open()?;
        if let Some(call) = open.call(id) {
            return Ok((&call.decided, Ok(call)));
        }
        let recent = open.recent.iter().find(|call| call.id == id);
        let recent = recent.ok_or(Refusal::Stale(Stale::Unknown))?;
        let stale = stale_by(&recent.decided).unwrap_or(Stale::Finished { at: recent.at });
        Ok((&recent.decided, Err(stale)))
    }

    fn approve(
        &mut self,
        resolver: &Resolver,
        policy: &PolicyFacts,
        edit: Option<Edit>,
        note: Option<String>,
    ) -> Result<(), Refusal> {
        let arguments = match edit {
            Some(Edit { arguments, fit }) => {
                require_fit(fit)?;
                if arguments.is_deeper_than(DEPTH_MAX) {
                    return Err(too_deep());
                }
                Some(arguments)
            }
            None => None,
        };
        self.require_affordable(resolver.call, arguments.as_ref())?;
        self.decided(resolver, Decided::Approve { arguments, note })?;
        self.go_on(resolver.call, policy)
    }

    /// Lets a call run about which the question was answered, unless policy denies it by now.
    pub(super) fn go_on(&mut self, call: CallId, policy: &PolicyFacts) -> Result<(), Refusal> {
        match forbidden(policy) {
            Some(failure) => self.fail(call, failure),
            None => self.hand_out(call),
        }
    }

    /// Says whether a yes is not the last that a call needs. Two people agree to one thing, so
    /// neither changes it, and neither counts twice.
    fn needs_another(&self, resolver: &Resolver, edit: Option<&Edit>) -> Result<bool, Refusal> {
        let call = self.call(resolver.call)?;
        let needed = call.contract.gate.n_approvals();
        if needed == 1 {
            return Ok(false);
        }
        if edit.is_some() {
            let message = "expected a yes or a no to the arguments as they are, for two people \
                           must approve the same call; deny it and say what to propose instead";
            return Err(Refusal::Misfit { message: message.to_owned() });
        }
        let endorsed = endorsed(call);
        if endorsed.iter().any(|earlier| earlier.by == resolver.by) {
            return Err(Refusal::NotAllowed {
                actor: resolver.by.clone(),
                action: "approve this call twice",
                reason: "it needs the yes of another person",
            });
        }
        Ok(endorsed.len() + 1 < needed)
    }

    fn endorse(&mut self, resolver: Resolver, note: Option<String>) -> Result<(), Refusal> {
        let Resolver { id: resolution, call, by } = resolver;
        let round = self.call(call)?.rounds;
        self.reply = Reply::Endorsed;
        self.emit(Event::CallEndorsed { call, round, resolution, by, note })
    }

    /// A yes is about one call, and lifts no limit on all of them.
    pub(super) fn require_affordable(
        &self,
        id: CallId,
        edited: Option<&Arguments>,
    ) -> Result<(), Refusal> {
        let call = self.call(id)?;
        let arguments = edited.unwrap_or(&call.arguments);
        match self.require_open()?.overspending(&call.contract, arguments, Some(call)) {
            Some(message) => Err(Refusal::Misfit { message }),
            None => Ok(()),
        }
    }

    fn deny(&mut self, resolver: &Resolver, note: Option<String>) -> Result<(), Refusal> {
        let message = match &note {
            Some(note) => format!("denied by approver: {note}"),
            None => "denied by approver".to_owned(),
        };
        self.decided(resolver, Decided::Deny { note })?;
        self.fail(resolver.call, Failure::new(ErrorClass::Denied, message))
    }

    fn settle(
        &mut self,
        resolver: &Resolver,
        policy: &PolicyFacts,
        settlement: Settlement,
    ) -> Result<(), Refusal> {
        match settlement {
            Settlement::Happened { output } => {
                if let Some(output) = &output {
                    require_shallow(&CallResult::Ok(output.clone()))?;
                }
                self.decided(resolver, Decided::Happened { output: output.clone() })?;
                let output = output.unwrap_or_else(said_to_have_happened);
                self.finish(resolver.call, Returned::from(CallResult::Ok(output)), None)
            }
            Settlement::RunAgain => {
                if let Some(why) = &self.call(resolver.call)?.barred {
                    let message = format!("it cannot be run again: {why}");
                    return Err(Refusal::Misfit { message });
                }
                require_permit(self.call(resolver.call)?)?;
                self.decided(resolver, Decided::RunAgain)?;
                match self.call(resolver.call)?.phase {
                    // Nothing had let it run when it came into doubt.
                    Phase::Proposed => self.ask(resolver.call, SuspendReason::Restored),
                    _ => self.go_on(resolver.call, policy),
                }
            }
            Settlement::GiveUp => {
                self.decided(resolver, Decided::GiveUp)?;
                self.fail(resolver.call, not_known("a person left it at that"))
            }
        }
    }

    fn decided(&mut self, resolver: &Resolver, decision: Decided) -> Result<(), Refusal> {
        let Resolver { id, call, by } = resolver;
        let round = self.call(*call)?.rounds;
        let (resolution, by) = (Some(*id), by.clone());
        self.emit(Event::CallResolved { call: *call, round, resolution, by, decision })
    }

    pub(super) fn expire(&mut self, expired: &Expired) -> Result<(), Refusal> {
        let call = self.call(expired.call)?;
        let suspension = waiting(call)?;
        if suspension.round != expired.round {
            let (seen, current) = (expired.round, suspension.round);
            return Err(Refusal::Stale(Stale::OtherRound { seen, current }));
        }
        if suspension.expires_at > self.now {
            return Err(Refusal::NotDue { due: suspension.expires_at });
        }
        let failure = match suspension.kind {
            SuspensionKind::Approval | SuspensionKind::Elicitation => {
                Failure::new(ErrorClass::Expired, "user did not respond")
            }
            SuspensionKind::ClientExec => {
                Failure::new(ErrorClass::Expired, "the client did not respond")
            }
            SuspensionKind::Settlement => not_known("nobody settled it in time"),
            SuspensionKind::Child => {
                Failure::new(ErrorClass::Expired, "the sub-agent did not finish in time")
            }
        };
        self.end_wait(expired.call, expired.round, Decided::Expired)?;
        self.fail(expired.call, failure)
    }

    pub(super) fn miss_client(&mut self, gone: &ClientGone) -> Result<(), Refusal> {
        let suspension = waiting(self.call(gone.call)?)?;
        if suspension.kind != SuspensionKind::ClientExec || suspension.round != gone.round {
            return Err(Refusal::Stale(Stale::NotAwaiting));
        }
        self.end_wait(gone.call, gone.round, Decided::ClientGone)?;
        let message = "no client is connected to run this; try again when one is";
        self.fail(gone.call, Failure::new(ErrorClass::Upstream, message))
    }

    fn end_wait(&mut self, call: CallId, round: u32, decision: Decided) -> Result<(), Refusal> {
        let by = Actor::system();
        self.emit(Event::CallResolved { call, round, resolution: None, by, decision })
    }
}

/// What comes from outside decides nothing about the run (document 004's security rule).
fn unprivileged(directives: Directives) -> Directives {
    Directives { terminal: None, needs_followup: None, ..directives }
}

fn require_shallow(result: &CallResult) -> Result<(), Refusal> {
    if is_deeper(result, DEPTH_MAX) { Err(too_deep()) } else { Ok(()) }
}

fn too_deep() -> Refusal {
    Refusal::Misfit { message: format!("expected at most {DEPTH_MAX} levels of nesting") }
}

fn stale_by(decided: &[DecidedBy]) -> Option<Stale> {
    let DecidedBy { by, kind, at, .. } = decided.last()?;
    Some(Stale::Decided { by: by.clone(), decision: *kind, at: *at })
}

/// Returns who has said yes to a call that waits for more of them.
fn endorsed(call: &Call) -> &[DecidedBy] {
    match &call.phase {
        Phase::Waiting(suspension) => &suspension.endorsed,
        Phase::Proposed
        | Phase::Previewing { .. }
        | Phase::Ready { .. }
        | Phase::Running { .. }
        | Phase::Verifying { .. }
        | Phase::Cancelling { .. }
        | Phase::AtProvider { .. }
        | Phase::Settled { .. } => &[],
    }
}

/// A call that was being stopped while its state was stored by an earlier version has lost what
/// let it run.
fn require_permit(call: &Call) -> Result<(), Refusal> {
    match &call.phase {
        // What waited for approval when a backup was made is asked about anew.
        Phase::Waiting(Suspension { permit: None, reason, .. })
            if *reason != SuspendReason::Restored =>
        {
            let message = "it cannot be run again: what let it run is not known any more; \
                           propose the call anew"
                .to_owned();
            Err(Refusal::Misfit { message })
        }
        _ => Ok(()),
    }
}

fn waiting(call: &Call) -> Result<&Suspension, Refusal> {
    let decided = stale_by(&call.decided);
    match &call.phase {
        Phase::Waiting(suspension) => Ok(suspension),
        Phase::Settled { at, .. } => Err(decided.unwrap_or(Stale::Finished { at: *at })),
        Phase::Proposed
        | Phase::Previewing { .. }
        | Phase::Ready { .. }
        | Phase::Running { .. }
        | Phase::Verifying { .. }
        | Phase::Cancelling { .. }
        | Phase::AtProvider { .. } => Err(decided.unwrap_or(Stale::NotAwaiting)),
    }
    .map_err(Refusal::Stale)
}

/// A wait that ran out is over, even before anyone has swept it up.
pub(super) fn awaited(call: &Call, now: Timestamp) -> Result<&Suspension, Refusal> {
    let suspension = waiting(call)?;
    if suspension.expires_at <= now {
        return Err(Refusal::Stale(Stale::Expired { at: suspension.expires_at }));
    }
    Ok(suspension)
}

/// Refuses a resolution that does not end this kind of wait. If somebody already ended the
/// earlier wait of this call that it would have ended, the resolver is late and is told who did.
fn require_kind(
    expected: SuspensionKind,
    resolution: &Resolution,
    decided: &[DecidedBy],
) -> Result<(), Refusal> {
    use SuspensionKind::{Approval, Child, ClientExec, Elicitation, Settlement};
    let (ends, found): (&[SuspensionKind], _) = match resolution {
        Resolution::Approve { .. } => (&[Approval], "approve"),
        Resolution::Deny { .. } => (&[Approval, Elicitation], "deny"),
        Resolution::Answer { .. } => (&[Elicitation], "answer"),
        Resolution::Result { .. } => (&[ClientExec, Child], "result"),
        Resolution::Settle(_) => (&[Settlement], "settle"),
    };
    if ends.contains(&expected) {
        return Ok(());
    }
    let earlier = decided
        .iter()
        .rfind(|earlier| ended_by(earlier.kind).is_some_and(|kind| ends.contains(&kind)));
    Err(match earlier {
        Some(DecidedBy { by, kind, at, .. }) => {
            Refusal::Stale(Stale::Decided { by: by.clone(), decision: *kind, at: *at })
        }
        None => Refusal::WrongKind { expected, found },
    })
}

/// Returns the kind of wait that a decision ended. `None` for an expiry, which ends every kind.
const fn ended_by(decision: DecidedKind) -> Option<SuspensionKind> {
    match decision {
        DecidedKind::Approve | DecidedKind::Granted | DecidedKind::Deny => {
            Some(SuspensionKind::Approval)
        }
        DecidedKind::Answer => Some(SuspensionKind::Elicitation),
        DecidedKind::Result | DecidedKind::ClientGone => Some(SuspensionKind::ClientExec),
        DecidedKind::Happened | DecidedKind::RunAgain | DecidedKind::GiveUp => {
            Some(SuspensionKind::Settlement)
        }
        DecidedKind::Expired => None,
    }
}

/// What a sub-agent did is nobody else's to say.
fn require_own_word(kind: SuspensionKind, by: &Actor) -> Result<(), Refusal> {
    if kind == SuspensionKind::Child && by.kind != ActorKind::System {
        return Err(Refusal::NotAllowed {
            actor: by.clone(),
            action: "say what a sub-agent did",
            reason: "its session does; cancel the call to stop waiting",
        });
    }
    Ok(())
}

fn require_fit(fit: Fit) -> Result<(), Refusal> {
    match fit {
        Fit::Fits => Ok(()),
        Fit::Misfit { message } => Err(Refusal::Misfit { message }),
    }
}

/// Policy is heard once more before an approved call runs: only a denial counts, an `ask` has
/// just been answered.
fn forbidden(policy: &PolicyFacts) -> Option<Failure> {
    if let Some(message) = &policy.unmet_precondition {
        return Some(Failure::new(ErrorClass::Gate, message.clone()));
    }
    policy.reports.iter().find_map(|report| match &report.report {
        Report::Says { verdict: Verdict::Deny, reason } | Report::Failed { reason } => {
            let message = format!("approved, but policy denies it by now: {reason}");
            Some(Failure::new(ErrorClass::Policy, message))
        }
        Report::Says { verdict: Verdict::Allow | Verdict::Ask, .. } => None,
    })
}

/// The accurate sentence about a call of which nobody knows the end.
pub(super) fn not_known(why: &str) -> Failure {
    Failure::effect_unknown(why)
}
