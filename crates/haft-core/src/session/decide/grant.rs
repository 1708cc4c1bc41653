//! Standing grants: given, taken back, and applied to what already waits.

use super::Draft;
use super::resolve::awaited;
use super::session::refuse_agent;
use crate::id::GrantId;
use crate::permission::StandingGrant;
use crate::session::admission::Basis;
use crate::session::effect::Reply;
use crate::session::event::{Event, StartCause};
use crate::session::input::{GrantOffered, GrantRevoked};
use crate::session::refusal::{Refusal, Stale};
use crate::session::state::{Call, Phase};
use crate::session::suspension::{Decided, SuspendReason, SuspensionKind};

impl Draft {
    pub(super) fn take_grant(&mut self, grant: StandingGrant) -> Result<(), Refusal> {
        let open = self.require_open()?;
        if open.grants().iter().any(|held| held.id == grant.id) {
            self.reply = Reply::AlreadyRecorded;
            return Ok(());
        }
        self.require_grantable(&grant)?;
        self.add_grant(grant)
    }

    pub(super) fn require_grantable(&self, grant: &StandingGrant) -> Result<(), Refusal> {
        refuse_agent(&grant.by, "give a standing permission")?;
        let always =
            |call: &Call| call.contract.tool == grant.tool && call.contract.gate.always_asks();
        match self.require_open()?.calls().any(always) {
            true => Err(Refusal::GrantNeverApplies),
            false => Ok(()),
        }
    }

    /// Adds the grant, then lets it settle the calls that wait and that it covers.
    pub(super) fn add_grant(&mut self, grant: StandingGrant) -> Result<(), Refusal> {
        if self.require_open()?.grants().iter().any(|held| held.id == grant.id) {
            return Ok(());
        }
        self.emit(Event::GrantAdded { grant })?;
        self.apply_grants()
    }

    /// Lets the session's grants settle the calls that wait for a yes.
    pub(super) fn apply_grants(&mut self) -> Result<(), Refusal> {
        for call in self.calls_where(waits_for_a_yes) {
            let open = self.require_open()?;
            let Some(waiting) = open.call(call) else { continue };
            let covering = open.grants().iter().find_map(|grant| {
                let used = grant.covers(&waiting.contract, &waiting.arguments, self.now).ok()?;
                Some((grant.by.clone(), used))
            });
            let Some((by, used)) = covering else { continue };
            let (round, decision) = (waiting.rounds, Decided::Granted { used });
            self.emit(Event::CallResolved { call, round, resolution: None, by, decision })?;
            self.hand_out(call)?;
        }
        Ok(())
    }

    /// Lets a grant beyond the session settle one call that waits for a yes. Whoever keeps the
    /// grant has taken this one use from it.
    pub(super) fn take_offer(&mut self, offered: &GrantOffered) -> Result<(), Refusal> {
        let GrantOffered { call, round, grant, policy } = offered;
        let waiting = self.call(*call)?;
        let suspension = awaited(waiting, self.now)?;
        if *round != suspension.round {
            let (seen, current) = (*round, suspension.round);
            return Err(Refusal::Stale(Stale::OtherRound { seen, current }));
        }
        refuse_agent(&grant.by, "give a standing permission")?;
        if !waits_for_a_yes(waiting) {
            return Err(Refusal::GrantNeverApplies);
        }
        let covering = grant.covers(&waiting.contract, &waiting.arguments, self.now);
        let used =
            covering.map_err(|mismatch| Refusal::Misfit { message: mismatch.to_string() })?;
        self.require_affordable(*call, None)?;
        let (by, decision) = (grant.by.clone(), Decided::Granted { used });
        let (call, round) = (*call, *round);
        self.emit(Event::CallResolved { call, round, resolution: None, by, decision })?;
        self.go_on(call, policy)
    }

    pub(super) fn revoke_grant(&mut self, revoked: GrantRevoked) -> Result<(), Refusal> {
        let open = self.require_open()?;
        if !open.grants().iter().any(|held| held.id == revoked.grant) {
            return Err(Refusal::UnknownGrant);
        }
        refuse_agent(&revoked.by, "take a permission back")?;
        self.emit(Event::GrantRevoked { grant: revoked.grant, by: revoked.by })?;
        for call in self.calls_where(|call| is_ready_by(call, revoked.grant)) {
            self.ask(call, SuspendReason::Asked)?;
        }
        Ok(())
    }
}

/// A call that a grant lets run and that has not started.
fn is_ready_by(call: &Call, grant: GrantId) -> bool {
    match &call.phase {
        Phase::Ready { permit, cause: StartCause::First, .. } => {
            matches!(permit.basis, Basis::Grant(used) if used.grant == grant)
        }
        Phase::Ready { .. }
        | Phase::Proposed
        | Phase::Previewing { .. }
        | Phase::Waiting(_)
        | Phase::Running { .. }
        | Phase::Verifying { .. }
        | Phase::Cancelling { .. }
        | Phase::AtProvider { .. }
        | Phase::Settled { .. } => false,
    }
}

/// A call whose approver must see a difference is not settled by a grant.
fn waits_for_a_yes(call: &Call) -> bool {
    match &call.phase {
        Phase::Waiting(suspension) => {
            suspension.kind == SuspensionKind::Approval
                && suspension.reason == SuspendReason::Asked
                && !call.contract.gate.always_asks()
        }
        Phase::Proposed
        | Phase::Previewing { .. }
        | Phase::Ready { .. }
        | Phase::Running { .. }
        | Phase::Verifying { .. }
        | Phase::Cancelling { .. }
        | Phase::AtProvider { .. }
        | Phase::Settled { .. } => false,
    }
}
