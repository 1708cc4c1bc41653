//! A fresh grant beyond a session settles the calls that wait already and that it covers.
//!
//! Whoever gives it does so at once. Every node looks again at what was noted along with fresh
//! grants: whoever gave one may have died, and a call that was proposed just before may have begun
//! to wait just after. Two that settle at once do no harm: a use is taken by compare and set, and
//! a wait is ended once.

use std::time::Duration;

use haft_core::session::{
    Call, GrantOffered, Input, Open, Phase, PolicyFacts, State, SuspensionKind,
};
use haft_core::{CallId, SessionId};
use haft_store::{Page, Pending, PendingFilter};

use super::Haft;
use super::grants::GrantError;
use crate::error::InputError;
use crate::outage::Outage;
use crate::standing::{Fresh, Ledger, Wanted};
use crate::toolbox::Wish;

/// How often fresh grants are looked at beside the moment in which they are given.
const LOOK_EVERY: Duration = Duration::from_secs(20);

/// How many waits are read at once.
const PAGE: u32 = 256;

impl Haft {
    /// Looks after fresh grants until the node begins nothing any more.
    pub(super) async fn settle_for_ever(self) {
        let mut outage = Outage::of("fresh grants cannot be looked at");
        loop {
            match self.settle_all().await {
                Ok(()) => outage.over(),
                Err(error) => outage.failed(&error),
            }
            tokio::select! {
                () = self.driver.drained() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    async fn settle_all(&self) -> Result<(), GrantError> {
        let ledger = self.ledger();
        let mut trouble = None;
        for fresh in ledger.fresh().await? {
            let looked_at = match fresh {
                Ok(fresh) => self.settle_noted(&ledger, &fresh).await,
                Err(error) => Err(error.into()),
            };
            // One grant that cannot be looked at keeps none of those behind it from being.
            if let Err(error) = looked_at {
                trouble = Some(error);
            }
        }
        trouble.map_or(Ok(()), Err)
    }

    async fn settle_noted(&self, ledger: &Ledger, fresh: &Fresh) -> Result<(), GrantError> {
        let is_last = self.toolbox.now() >= fresh.until;
        let Settled { trouble, .. } = self.settle(ledger, fresh).await?;
        match trouble {
            Some(error) => Err(error),
            None if is_last => Ok(ledger.forget(fresh).await?),
            None => Ok(()),
        }
    }

    pub(super) fn ledger(&self) -> Ledger {
        Ledger::new(self.store().clone(), self.toolbox.clock())
    }

    /// Offers a grant to every call of its tool that waits for a yes; returns those that took it,
    /// and what went wrong with others.
    pub(super) async fn settle(
        &self,
        ledger: &Ledger,
        fresh: &Fresh,
    ) -> Result<Settled, GrantError> {
        let kind = Some(SuspensionKind::Approval);
        let tenant = Some(fresh.tenant()?);
        let filter = PendingFilter { tenant, kind, ..PendingFilter::default() };
        let (mut settled, mut page) = (Settled::default(), Page::first(PAGE));
        loop {
            let rows = self.store().pending(&filter, &page).await.map_err(InputError::from)?;
            let Some(last) = rows.last() else { return Ok(settled) };
            page = Page::after(last.cursor(), PAGE);
            for row in rows.iter().filter(|row| row.tool == fresh.tool.as_str()) {
                match self.offer_grant(ledger, fresh, row).await {
                    Ok(true) => settled.calls.push((row.session, row.call)),
                    Ok(false) => {}
                    Err(error) => {
                        let Pending { session, call, .. } = row;
                        tracing::warn!(%session, %call, %error, "a grant cannot be offered to a call");
                        settled.trouble = Some(error);
                    }
                }
            }
        }
    }

    /// Offers a grant to one call; returns whether it took it.
    async fn offer_grant(
        &self,
        ledger: &Ledger,
        fresh: &Fresh,
        row: &Pending,
    ) -> Result<bool, GrantError> {
        let Pending { session, call, round, .. } = *row;
        let loaded = self.store().load(session).await.map_err(InputError::from)?;
        let Some(loaded) = loaded else { return Ok(false) };
        let State::Open(open) = &loaded.state else { return Ok(false) };
        let Some(waiting) = open.call(call).filter(|call| waits(call, round)) else {
            return Ok(false);
        };
        // A call whose tool is gone is left to a person, who is told so.
        let Some(policy) = self.policy_by_now(session, open, waiting).await else {
            return Ok(false);
        };
        let wanted = Wanted {
            session,
            call,
            round: Some(round),
            opened_by: &open.opened_by,
            config: &open.config,
            contract: &waiting.contract,
            arguments: &waiting.arguments,
        };
        let taken = ledger.take_for_wait(fresh, wanted, loaded.head.seq).await?;
        let Some(grant) = taken else { return Ok(false) };
        let offered = Input::GrantOffered(GrantOffered { call, round, grant, policy });
        match self.driver.record(session, offered).await {
            Ok(_) => Ok(true),
            Err(InputError::Refused(refusal)) => {
                tracing::debug!(%session, %call, %refusal, "a grant came too late for a call");
                ledger.put_back(fresh, session, call).await?;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn policy_by_now(
        &self,
        session: SessionId,
        open: &Open,
        waiting: &Call,
    ) -> Option<PolicyFacts> {
        let name = waiting.contract.tool.as_str();
        let registered = self.toolbox.tool(&open.config.toolset, name)?;
        let wish = Wish {
            session,
            opened_by: &open.opened_by,
            spec: registered.spec(),
            arguments: &waiting.arguments,
            config: &open.config,
            store: Some(self.store()),
        };
        Some(self.toolbox.policy_facts(wish).await)
    }
}

/// What came of offering a grant to what waits.
#[derive(Default)]
pub(super) struct Settled {
    /// The calls that took it.
    pub(super) calls: Vec<(SessionId, CallId)>,
    /// What went wrong with one of the others; those are tried again.
    trouble: Option<GrantError>,
}

fn waits(call: &Call, round: u32) -> bool {
    matches!(&call.phase, Phase::Waiting(suspension) if suspension.round == round)
}
