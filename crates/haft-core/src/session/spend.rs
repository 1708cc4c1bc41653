//! What a session may spend, and what it has spent.
//!
//! A call is counted when it is proposed, so that calls which wait for a yes cannot pass a limit
//! together. It is counted no longer once it is certain that it never ran.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::config::Limits;
use super::state::{Call, Open, Phase};
use super::suspension::SuspensionKind;
use crate::arguments::Arguments;
use crate::permission::Amount;
use crate::tool::{Contract, Price, Unit};

/// The most that may be spent, by unit. Of what is not named, nothing may be spent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Allowance(BTreeMap<Unit, Amount>);

impl FromIterator<(Unit, Amount)> for Allowance {
    fn from_iter<I: IntoIterator<Item = (Unit, Amount)>>(units: I) -> Self {
        Self(units.into_iter().collect())
    }
}

impl Allowance {
    /// Returns the most that may be spent of a unit.
    pub fn of(&self, unit: &Unit) -> Amount {
        self.0.get(unit).copied().unwrap_or(Amount::ZERO)
    }

    /// Returns what both allow.
    pub(super) fn narrowed_by(&self, other: &Self) -> Self {
        let both = self.0.iter().filter(|(unit, _)| other.0.contains_key(unit));
        both.map(|(unit, amount)| (unit.clone(), other.of(unit).min(*amount))).collect()
    }

    fn less(&self, spent: &Sums) -> Self {
        let left = |(unit, most): (&Unit, &Amount)| {
            (unit.clone(), most.spend(spent.of(unit)).unwrap_or(Amount::ZERO))
        };
        self.0.iter().map(left).collect()
    }
}

pub(super) fn narrowed(ours: Option<&Allowance>, other: Option<&Allowance>) -> Option<Allowance> {
    match (ours, other) {
        (Some(ours), Some(other)) => Some(ours.narrowed_by(other)),
        (ours, other) => ours.or(other).cloned(),
    }
}

/// Amounts by unit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Sums(BTreeMap<Unit, Amount>);

impl Sums {
    fn of(&self, unit: &Unit) -> Amount {
        self.0.get(unit).copied().unwrap_or(Amount::ZERO)
    }

    fn add(&mut self, price: &Price) {
        let sum = self.of(&price.unit).plus(price.amount);
        self.0.insert(price.unit.clone(), sum);
    }

    fn take_back(&mut self, price: &Price) {
        let left = self.of(&price.unit).spend(price.amount).unwrap_or(Amount::ZERO);
        self.0.insert(price.unit.clone(), left);
    }
}

/// What a session has spent, or may be about to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Spent {
    run: Sums,
    session: Sums,
}

impl Spent {
    pub(super) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn end_run(&mut self) {
        self.run = Sums::default();
    }

    fn add(&mut self, price: &Price) {
        self.run.add(price);
        self.session.add(price);
    }

    fn take_back(&mut self, price: &Price) {
        self.run.take_back(price);
        self.session.take_back(price);
    }
}

impl Limits {
    /// Returns whether there is a limit on spending.
    pub const fn bounds_spending(&self) -> bool {
        self.spend_per_run.is_some() || self.spend_per_session.is_some()
    }

    /// Only what a limit names is counted: the units that arguments name have no bound.
    fn counts(&self, unit: &Unit) -> bool {
        let limits = [&self.spend_per_run, &self.spend_per_session];
        limits.into_iter().flatten().any(|allowance| allowance.0.contains_key(unit))
    }
}

impl Open {
    /// Returns how much of a unit the current run has spent, or may be about to, while a limit
    /// named it.
    pub fn spent_in_run(&self, unit: &Unit) -> Amount {
        self.spent.run.of(unit)
    }

    /// Returns how much of a unit the session has spent, or may be about to, while a limit named
    /// it.
    pub fn spent_in_session(&self, unit: &Unit) -> Amount {
        self.spent.session.of(unit)
    }

    /// Returns what may still be spent when there is a limit.
    fn allowance_left(&self, spent: &Spent) -> Option<Allowance> {
        let limits = &self.config.limits;
        let run = limits.spend_per_run.as_ref().map(|most| most.less(&spent.run));
        let session = limits.spend_per_session.as_ref().map(|most| most.less(&spent.session));
        narrowed(run.as_ref(), session.as_ref())
    }

    /// Returns why a call may not run with these terms and arguments. What a call that stands
    /// already has been counted for is its own.
    pub(super) fn overspending(
        &self,
        contract: &Contract,
        arguments: &Arguments,
        standing: Option<&Call>,
    ) -> Option<String> {
        if !self.config.limits.bounds_spending() {
            return None;
        }
        let price = match contract.price(arguments) {
            Ok(price) => price?,
            Err(why) => return Some(format!("what is spent is limited here: {why}")),
        };
        let mut spent = self.spent.clone();
        if let Some(own) = standing.and_then(|call| call.counted.as_ref()) {
            spent.take_back(own);
        }
        let Price { amount, unit } = &price;
        let left = self.allowance_left(&spent)?.of(unit);
        let over = left.spend(*amount).is_none();
        over.then(|| format!("expected to spend at most {left} {unit} more, found {amount}"))
    }

    /// Returns what a child may spend: what was set aside for it and is left. A child for which
    /// nothing was set aside spends nothing, so that a limit holds for all sessions together.
    pub(super) fn allowance_for(&self, wish: &Limits) -> Option<Allowance> {
        let aside = narrowed(wish.spend_per_session.as_ref(), wish.spend_per_run.as_ref());
        match self.allowance_left(&self.spent) {
            Some(left) => Some(left.narrowed_by(&aside.unwrap_or_default())),
            None => wish.spend_per_session.clone(),
        }
    }

    /// Counts what a call costs, in place of what it was counted for before.
    pub(super) fn count_spending(&mut self, place: usize) {
        let Some(call) = self.calls.get_mut(place) else { return };
        let limits = &self.config.limits;
        let price = call.contract.price(&call.arguments).ok().flatten();
        let price = price.filter(|price| limits.counts(&price.unit));
        if price == call.counted {
            return;
        }
        let call = std::sync::Arc::make_mut(call);
        if let Some(before) = std::mem::replace(&mut call.counted, price.clone()) {
            self.spent.take_back(&before);
        }
        if let Some(price) = price {
            self.spent.add(&price);
        }
    }

    /// What a child may spend is spent, as far as its parent knows.
    pub(super) fn count_child(&mut self, given: &Limits) {
        let Some(allowance) = &given.spend_per_session else { return };
        for (unit, amount) in &allowance.0 {
            if self.config.limits.counts(unit) {
                self.spent.add(&Price { unit: unit.clone(), amount: *amount });
            }
        }
    }

    /// A call that ends without ever having run has spent nothing.
    pub(super) fn settle_spending(&mut self, place: usize) {
        let Some(call) = self.calls.get_mut(place) else { return };
        if call.counted.is_none() || may_have_run(call) {
            return;
        }
        if let Some(price) = std::sync::Arc::make_mut(call).counted.take() {
            self.spent.take_back(&price);
        }
    }
}

/// A client or a person may have acted before anyone heard of it.
fn may_have_run(call: &Call) -> bool {
    let handed_out = match &call.phase {
        Phase::Waiting(wait) => match wait.kind {
            SuspensionKind::Approval => false,
            SuspensionKind::Elicitation
            | SuspensionKind::ClientExec
            | SuspensionKind::Settlement
            | SuspensionKind::Child => true,
        },
        Phase::Running { .. }
        | Phase::Verifying { .. }
        | Phase::Cancelling { .. }
        | Phase::AtProvider { .. }
        | Phase::Settled { .. } => true,
        Phase::Proposed | Phase::Previewing { .. } | Phase::Ready { .. } => false,
    };
    handed_out || call.attempts > 0
}
