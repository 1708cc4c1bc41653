//! From proposed to admitted, suspended or rejected: the whole of admission.

use std::collections::BTreeSet;

use super::Draft;
use crate::id::CallId;
use crate::name::ToolName;
use crate::permission::{Derivation, Question, Verdict};
use crate::session::admission::{Basis, Permit, RejectReason, Rejection};
use crate::session::config::Driver;
use crate::session::effect::Effect;
use crate::session::event::{Event, Seen, StartCause};
use crate::session::input::{CallsProposed, Check, Proposal, SoundCall};
use crate::session::refusal::Refusal;
use crate::session::state::{Activity, Call, Open, Stopping};
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
            self.emit(Event::TurnStarted { turn, messages: Vec::new() })?;
        }
        for proposal in proposed.calls {
            self.admit(proposal, None)?;
        }
        Ok(())
    }

    pub(super) fn refuse_duplicates(&self, proposals: &[Proposal]) -> Result<(), Refusal> {
        let open = self.require_open()?;
        let mut seen = BTreeSet::new();
        let repeated = proposals
            .iter()
            .find(|proposal| !seen.insert(proposal.id) || open.call(proposal.id).is_some());
        repeated.map_or(Ok(()), |proposal| Err(Refusal::DuplicateCall { call: proposal.id }))
    }

    /// Takes one proposal as far as it goes by itself: name, arguments, limits, permission.
    pub(super) fn admit(
        &mut self,
        proposal: Proposal,
        advertised: Option<&BTreeSet<ToolName>>,
    ) -> Result<(), Refusal> {
        let Proposal { id, provider_id, name, check } = proposal;
        let reject = |reason, message: String, raw_arguments| Event::CallRejected {
            call: id,
            provider_id: provider_id.clone(),
            name: name.clone(),
            rejection: Rejection { reason, message, raw_arguments },
        };
        let sound = match check {
            Check::UnknownTool { message } => {
                return self.emit(reject(RejectReason::UnknownTool, message, None));
            }
            Check::Malformed { raw, message } => {
                return self.emit(reject(RejectReason::Malformed, message, Some(raw)));
            }
            Check::Invalid { message } => {
                return self.emit(reject(RejectReason::InvalidArguments, message, None));
            }
            Check::Sound(sound) => sound,
        };
        if advertised.is_some_and(|names| !names.contains(&sound.contract.tool)) {
            let message = format!("`{name}` was not offered in this turn; use a tool that was");
            return self.emit(reject(RejectReason::NotAdvertised, message, None));
        }
        let open = self.require_open()?;
        if let Some(message) = over_limit(open) {
            return self.emit(reject(RejectReason::Limit, message, None));
        }
        let twin = |c: &&Call| c.provider_id == provider_id;
        let seen = open.calls().find(twin).map_or(Seen::First, |_| Seen::Again);
        let same = open.calls().filter(twin).any(|call| {
            call.contract.tool == sound.contract.tool
                && call.arguments.digest() == sound.arguments.digest()
        });
        if same {
            let message = "the same call with the same id stands in this turn; it is not run twice";
            return self.emit(reject(RejectReason::Repeated, message.to_owned(), None));
        }
        if let Some(message) = sound.policy.unmet_precondition {
            return self.emit(reject(RejectReason::Precondition, message, None));
        }
        let derivation = self.permission(open, &sound);
        if derivation.decision == Verdict::Deny {
            let message = format!("not permitted: {}", derivation.deciding_reason());
            return self.emit(reject(RejectReason::Denied, message, None));
        }
        let SoundCall { contract, arguments, grants: outside, .. } = sound;
        let digest = arguments.digest();
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
        if decision == Verdict::Ask {
            return self.ask(id, SuspendReason::Asked);
        }
        let basis = grant.map_or(Basis::Policy, Basis::Grant);
        self.emit(Event::CallAdmitted { call: id, permit: Permit { digest, basis } })?;
        self.hand_out(id)
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
                self.emit(Event::CallPreviewing { call: id })
            }
            Preview::None => self.suspend(id, SuspensionKind::Approval, reason, None),
        }
    }

    /// Gives a call that may run to whoever runs it. Server calls stay ready: [`Draft::advance`]
    /// starts them as far as the others leave room.
    pub(super) fn hand_out(&mut self, id: CallId) -> Result<(), Refusal> {
        let call = self.call(id)?;
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
            SuspensionKind::Approval | SuspensionKind::Elicitation | SuspensionKind::ClientExec => {
                call.contract.suspend_ttl
            }
            SuspensionKind::Settlement => self.require_open()?.config.settle_ttl,
        };
        let expires_at = self.now + ttl;
        self.emit(Event::CallSuspended { call: id, round, kind, expires_at, reason, preview })
    }
}

fn over_limit(open: &Open) -> Option<String> {
    let limits = &open.config.limits;
    let in_turn = open.calls().count();
    if open.calls_in_run >= limits.calls_per_run {
        let max = limits.calls_per_run;
        return Some(format!("expected at most {max} calls in one run; this call was not run"));
    }
    if in_turn >= limits.calls_per_turn as usize {
        let max = limits.calls_per_turn;
        return Some(format!("expected at most {max} calls in one turn; this call was not run"));
    }
    if open.waiting().count() >= limits.waiting_max as usize {
        let max = limits.waiting_max;
        return Some(format!("{max} calls wait for people already; this call was not run"));
    }
    None
}
