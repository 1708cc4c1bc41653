//! From proposed to admitted, suspended or rejected: the whole of admission.

use std::collections::BTreeSet;

use super::Draft;
use crate::id::{CallId, ProviderCallId};
use crate::json::DEPTH_MAX;
use crate::name::ToolName;
use crate::permission::{Derivation, Question, Verdict};
use crate::session::admission::{Basis, Permit, RejectReason, Rejection};
use crate::session::config::Driver;
use crate::session::effect::Effect;
use crate::session::event::{Event, Seen, StartCause};
use crate::session::input::{CallsProposed, Check, Proposal, SoundCall};
use crate::session::refusal::Refusal;
use crate::session::state::{Activity, Call, Open, Phase, Stopping};
use crate::session::suspension;
use crate::session::suspension::{SuspendReason, SuspensionKind};
use crate::time::Millis;
use crate::tool::{Executor, Preview};

impl Draft {
    pub(super) fn take_proposals(&mut self, proposed: CallsProposed) -> Result<(), Refusal> {
        let open = self.require_open()?;
        if open.config.driver != Driver::Caller {
            return Err(Refusal::WrongDriver { expected: "its caller", found: "a model" });
        }
        if open.stopping != Stopping::No {
            return Err(Refusal::Busy);
        }
        self.refuse_duplicates(&proposed.calls)?;
        if self.require_open()?.activity == Activity::Idle {
            let turn = self.require_open()?.turn + 1;
            self.emit(Event::TurnStarted { turn, messages: Vec::new(), wakes: Vec::new() })?;
        }
        for proposal in proposed.calls {
            self.admit(proposal, None)?;
        }
        Ok(())
    }

    pub(super) fn refuse_duplicates(&self, proposals: &[Proposal]) -> Result<(), Refusal> {
        let open = self.require_open()?;
        let mut seen = BTreeSet::new();
        let known = |id| open.call(id).is_some() || open.recent.iter().any(|call| call.id == id);
        let repeated = proposals.iter().find(|call| !seen.insert(call.id) || known(call.id));
        repeated.map_or(Ok(()), |proposal| Err(Refusal::DuplicateCall { call: proposal.id }))
    }

    /// Takes one proposal as far as it goes by itself: name, arguments, limits, permission.
    pub(super) fn admit(
        &mut self,
        proposal: Proposal,
        advertised: Option<&BTreeSet<ToolName>>,
    ) -> Result<(), Refusal> {
        let Proposal { id, provider_id, name, check } = proposal;
        let open = self.require_open()?;
        let examined = examine(check, &name, advertised).and_then(|sound| {
            let seen = repeated(open, &provider_id, &sound)?;
            Ok((self.permit(open, &sound)?, seen, sound))
        });
        let (derivation, seen, sound) = match examined {
            Ok(examined) => examined,
            Err(rejection) => {
                return self.emit(Event::CallRejected { call: id, provider_id, name, rejection });
            }
        };
        let SoundCall { contract, arguments, grants: outside, .. } = sound;
        let (digest, ran_already) = (arguments.digest(), contract.executor == Executor::Provider);
        let (decision, grant) = (derivation.decision, derivation.grant);
        self.spent_outside
            .extend(grant.filter(|used| outside.iter().any(|outside| outside.id == used.grant)));
        self.emit(Event::CallProposed {
            call: id,
            provider_id,
            provider_id_seen: seen,
            contract,
            arguments,
            derivation,
        })?;
        if decision == Verdict::Ask && !ran_already {
            return self.ask(id, SuspendReason::Asked);
        }
        let basis = grant.map_or(Basis::Policy, Basis::Grant);
        self.emit(Event::CallAdmitted { call: id, permit: Permit { digest, basis } })?;
        self.hand_out(id)
    }

    /// Limits, preconditions and permission. What a provider has run already is only recorded.
    fn permit(&self, open: &Open, sound: &SoundCall) -> Result<Derivation, Rejection> {
        if let Some(message) = over_limit(open) {
            return Err(rejection(RejectReason::Limit, message));
        }
        if let Some(message) = &sound.policy.unmet_precondition {
            return Err(rejection(RejectReason::Precondition, message.clone()));
        }
        let derivation = self.permission(open, sound);
        let ran_already = sound.contract.executor == Executor::Provider;
        if derivation.decision == Verdict::Deny && !ran_already {
            let message = format!("not permitted: {}", derivation.deciding_reason());
            return Err(rejection(RejectReason::Denied, message));
        }
        match no_room_to_wait(open, sound, derivation.decision) {
            Some(message) => Err(rejection(RejectReason::Limit, message)),
            None => Ok(derivation),
        }
    }

    fn permission(&self, open: &Open, sound: &SoundCall) -> Derivation {
        let question = |grants| Question {
            contract: &sound.contract,
            arguments: &sound.arguments,
            level: open.config.level,
            profile: open.config.profile,
            exposure: &open.config.exposure,
            reports: &sound.policy.reports,
            grants,
            now: self.now,
        };
        if sound.grants.is_empty() {
            return question(&open.grants).derive();
        }
        let outside = sound.grants.iter().map(|grant| grant.after(&self.spent_outside));
        let grants: Vec<_> = open.grants.iter().cloned().chain(outside).collect();
        question(&grants).derive()
    }

    /// Asks a person, after finding out what there is to show.
    pub(super) fn ask(&mut self, id: CallId, reason: SuspendReason) -> Result<(), Refusal> {
        match self.call(id)?.contract.preview {
            Preview::Shown => {
                self.effects.push(Effect::Preview { call: id });
                self.emit(Event::CallPreviewing { call: id, reason })
            }
            Preview::None => self.suspend(id, SuspensionKind::Approval, reason, None),
        }
    }

    /// Gives a call that may run to whoever runs it. Server calls stay ready: [`Draft::advance`]
    /// starts them as far as the others leave room.
    pub(super) fn hand_out(&mut self, id: CallId) -> Result<(), Refusal> {
        let call = self.call(id)?;
        if let Some(failure) = self.no_longer_exposed(&call.contract.tool)? {
            return self.fail(id, failure);
        }
        match call.contract.executor {
            Executor::Server => Ok(()),
            Executor::Human => {
                self.suspend(id, SuspensionKind::Elicitation, SuspendReason::Executor, None)
            }
            Executor::Client => {
                self.suspend(id, SuspensionKind::ClientExec, SuspendReason::Executor, None)
            }
            Executor::Provider => {
                let digest = call.arguments.digest();
                let cause = StartCause::First;
                self.emit(Event::CallStarted { call: id, attempt: 1, digest, cause })
            }
        }
    }

    pub(super) fn suspend(
        &mut self,
        id: CallId,
        kind: SuspensionKind,
        reason: SuspendReason,
        preview: Option<suspension::Preview>,
    ) -> Result<(), Refusal> {
        let call = self.call(id)?;
        let round = call.rounds + 1;
        let ttl: Millis = match kind {
            SuspensionKind::Approval
            | SuspensionKind::Elicitation
            | SuspensionKind::ClientExec
            | SuspensionKind::Child => call.contract.suspend_ttl,
            SuspensionKind::Settlement => self.require_open()?.config.settle_ttl,
        };
        let expires_at = self.now + ttl;
        self.emit(Event::CallSuspended { call: id, round, kind, expires_at, reason, preview })
    }
}

fn rejection(reason: RejectReason, message: String) -> Rejection {
    Rejection { reason, message, raw_arguments: None }
}

/// Name and arguments.
fn examine(
    check: Check,
    name: &str,
    advertised: Option<&BTreeSet<ToolName>>,
) -> Result<SoundCall, Rejection> {
    let sound = match check {
        Check::UnknownTool { message } => {
            return Err(rejection(RejectReason::UnknownTool, message));
        }
        Check::Malformed { raw, message } => {
            let raw_arguments = Some(raw);
            return Err(Rejection { reason: RejectReason::Malformed, message, raw_arguments });
        }
        Check::Invalid { message } => {
            return Err(rejection(RejectReason::InvalidArguments, message));
        }
        Check::Sound(sound) => sound,
    };
    if sound.arguments.is_deeper_than(DEPTH_MAX) {
        let message = format!("expected arguments of at most {DEPTH_MAX} levels of nesting");
        return Err(rejection(RejectReason::InvalidArguments, message));
    }
    if advertised.is_some_and(|names| !names.contains(&sound.contract.tool)) {
        let message = format!("`{name}` was not offered in this turn; use a tool that was");
        return Err(rejection(RejectReason::NotAdvertised, message));
    }
    Ok(sound)
}

/// A provider's id may come again for another call. The very same call under the same id is a
/// stream that stuttered, and is not run twice.
fn repeated(
    open: &Open,
    provider_id: &ProviderCallId,
    sound: &SoundCall,
) -> Result<Seen, Rejection> {
    let twins = || open.calls().filter(|call| call.provider_id == *provider_id);
    let same = |call: &Call| {
        call.contract.tool == sound.contract.tool
            && call.arguments.digest() == sound.arguments.digest()
    };
    if twins().any(same) {
        let message = "the same call with the same id stands in this turn; it is not run twice";
        return Err(rejection(RejectReason::Repeated, message.to_owned()));
    }
    Ok(twins().next().map_or(Seen::First, |_| Seen::Again))
}

/// Returns why no further call is taken. A program decides for itself how much it calls, so only
/// what is open at the same time is bounded for it.
fn over_limit(open: &Open) -> Option<String> {
    let limits = &open.config.limits;
    let in_turn = match open.config.driver {
        Driver::Model => open.calls().count(),
        Driver::Caller => open.calls().filter(|call| call.phase.is_open()).count(),
    };
    if open.config.driver == Driver::Model && open.calls_in_run >= limits.calls_per_run {
        let max = limits.calls_per_run;
        return Some(format!("expected at most {max} calls in one run; this call was not run"));
    }
    if in_turn >= limits.calls_per_turn as usize {
        let max = limits.calls_per_turn;
        return Some(format!("expected at most {max} calls in one turn; this call was not run"));
    }
    None
}

/// Returns why a call that would wait for someone is not taken.
fn no_room_to_wait(open: &Open, sound: &SoundCall, decision: Verdict) -> Option<String> {
    let waits = match sound.contract.executor {
        Executor::Human | Executor::Client => true,
        Executor::Server => decision == Verdict::Ask,
        Executor::Provider => false,
    };
    let waiting = |call: &&Call| matches!(call.phase, Phase::Waiting(_) | Phase::Previewing { .. });
    let max = open.config.limits.waiting_max;
    let full = open.calls().filter(waiting).count() >= max as usize;
    (waits && full).then(|| format!("{max} calls wait for people already; this call was not run"))
}
