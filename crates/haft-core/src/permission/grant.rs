//! Standing permission, bounded: which tool, which arguments, how often, how much, how long.
//!
//! A grant names conditions on typed arguments. There is deliberately no prefix or pattern test
//! on text: "every command that starts with `ls`" is not a bound.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::amount::Amount;
use crate::actor::Actor;
use crate::arguments::Arguments;
use crate::digest::Digest;
use crate::id::GrantId;
use crate::name::ToolName;
use crate::pointer::JsonPointer;
use crate::time::Timestamp;
use crate::tool::{Contract, Redaction};

/// A standing permission that a person gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandingGrant {
    /// Its id.
    pub id: GrantId,
    /// The tool it is for.
    pub tool: ToolName,
    /// The tool's behaviour when it was given; a tool that changed is not covered.
    pub contract: Digest,
    /// What must hold for the arguments; all of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<Condition>,
    /// How many calls are left; `None` for any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses_left: Option<u32>,
    /// How much is left; `None` for any amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Who gave it.
    pub by: Actor,
    /// When it was given.
    pub at: Timestamp,
}

/// One condition on the arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// Where in the arguments.
    pub field: JsonPointer,
    /// What must hold there.
    pub test: Test,
}

impl Condition {
    /// Returns whether it holds for what is seen. A masked secret says nothing about what runs, so
    /// nothing holds for it.
    fn holds(&self, arguments: &Arguments) -> bool {
        let found = self.field.find(arguments.record());
        found.is_some_and(|found| !arguments.is_masked(found) && self.test.holds(found))
    }

    /// Returns whether it holds or what is seen cannot tell: nothing is there, or only the mask of
    /// a secret. Rules that ask for more are held against calls this way.
    pub fn may_hold(&self, arguments: &Arguments) -> bool {
        let found = self.field.find(arguments.record()).filter(|found| **found != Redaction::MASK);
        found.is_none_or(|found| self.test.may_hold(found))
    }
}

/// What can be asked of one argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// Is exactly this.
    Equals(Value),
    /// Is one of these.
    OneOf(Vec<Value>),
    /// Is a number not above this.
    AtMost(Amount),
    /// Is a number not below this.
    AtLeast(Amount),
}

impl Test {
    fn holds(&self, found: &Value) -> bool {
        let amount = || found.as_number().and_then(Amount::from_number);
        match self {
            Self::Equals(value) => value == found,
            Self::OneOf(values) => values.contains(found),
            Self::AtMost(limit) => amount().is_some_and(|amount| amount <= *limit),
            Self::AtLeast(limit) => amount().is_some_and(|amount| amount >= *limit),
        }
    }

    fn may_hold(&self, found: &Value) -> bool {
        let is_amount = || found.as_number().and_then(Amount::from_number).is_some();
        match self {
            Self::Equals(_) | Self::OneOf(_) => self.holds(found),
            Self::AtMost(_) | Self::AtLeast(_) => self.holds(found) || !is_amount(),
        }
    }
}

/// A sum that the calls under a grant may not pass together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// The argument that is summed.
    pub field: JsonPointer,
    /// What is left.
    pub left: Amount,
}

/// What one call takes from a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantUse {
    /// The grant.
    pub grant: GrantId,
    /// What is taken from its budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<Amount>,
}

/// Why a grant does not cover a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// It is for another tool.
    #[error("it is for another tool")]
    Tool,
    /// The tool changed since.
    #[error("the tool has changed since it was given")]
    Changed,
    /// It ended.
    #[error("it expired at {at}")]
    Expired {
        /// When.
        at: Timestamp,
    },
    /// It was used up.
    #[error("no uses are left")]
    UsedUp,
    /// A condition does not hold.
    #[error("`{field}` does not meet its condition")]
    Condition {
        /// Where.
        field: JsonPointer,
    },
    /// The budget does not reach.
    #[error("`{field}` is more than the {left} that is left")]
    Budget {
        /// Where.
        field: JsonPointer,
        /// What is left.
        left: Amount,
    },
    /// The summed argument is no exact amount.
    #[error("`{field}` is not an exact amount")]
    Amount {
        /// Where.
        field: JsonPointer,
    },
}

impl StandingGrant {
    /// Returns what the call would take from the grant, or why the grant does not cover it.
    ///
    /// # Errors
    ///
    /// The first reason for which it does not.
    pub fn covers(
        &self,
        contract: &Contract,
        arguments: &Arguments,
        now: Timestamp,
    ) -> Result<GrantUse, Mismatch> {
        if self.tool != contract.tool {
            return Err(Mismatch::Tool);
        }
        if self.contract != contract.digest {
            return Err(Mismatch::Changed);
        }
        if let Some(at) = self.expires_at.filter(|at| *at <= now) {
            return Err(Mismatch::Expired { at });
        }
        if self.is_used_up() {
            return Err(Mismatch::UsedUp);
        }
        if let Some(broken) = self.when.iter().find(|condition| !condition.holds(arguments)) {
            return Err(Mismatch::Condition { field: broken.field.clone() });
        }
        let amount = self.budget.as_ref().map(|budget| budget.take(arguments)).transpose()?;
        Ok(GrantUse { grant: self.id, amount })
    }

    /// Returns what is left after some uses, of which others may be of other grants.
    pub(crate) fn after(&self, uses: &[GrantUse]) -> Self {
        let mut left = self.clone();
        for used in uses.iter().filter(|used| used.grant == self.id) {
            left.consume(used);
        }
        left
    }

    /// Returns whether it can never cover a call again.
    pub(crate) fn is_used_up(&self) -> bool {
        self.uses_left == Some(0)
    }

    /// Takes a use from what is left, and returns a grant for nothing but that use, which ends
    /// at the latest at `until`.
    pub fn take(&mut self, used: &GrantUse, until: Timestamp) -> Self {
        let budget = self.budget.clone().zip(used.amount);
        let shown = Self {
            uses_left: Some(1),
            budget: budget.map(|(budget, left)| Budget { left, ..budget }),
            expires_at: Some(self.expires_at.map_or(until, |at| at.min(until))),
            ..self.clone()
        };
        self.consume(used);
        shown
    }

    /// Puts a use back that was taken and not needed.
    pub fn put_back(&mut self, used: &GrantUse) {
        self.uses_left = self.uses_left.map(|left| left.saturating_add(1));
        if let (Some(budget), Some(amount)) = (&mut self.budget, used.amount) {
            budget.left = budget.left.plus(amount);
        }
    }

    /// Takes a use from what is left.
    pub(crate) fn consume(&mut self, used: &GrantUse) {
        self.uses_left = self.uses_left.map(|left| left.saturating_sub(1));
        if let (Some(budget), Some(amount)) = (&mut self.budget, used.amount) {
            budget.left = budget.left.spend(amount).unwrap_or(Amount::ZERO);
        }
    }
}

impl Budget {
    fn take(&self, arguments: &Arguments) -> Result<Amount, Mismatch> {
        let found = self.field.find(arguments.record()).and_then(Value::as_number);
        let amount = found.and_then(Amount::from_number).filter(|amount| *amount >= Amount::ZERO);
        let amount = amount.ok_or_else(|| Mismatch::Amount { field: self.field.clone() })?;
        match self.left.spend(amount) {
            Some(_) => Ok(amount),
            None => Err(Mismatch::Budget { field: self.field.clone(), left: self.left }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::ActorId;
    use crate::tool::{Definition, Schema, ToolSpec};
    use serde_json::json;
    use std::sync::Arc;

    fn contract(name: &str) -> Arc<Contract> {
        let schema = Schema::new(r#"{"type":"object"}"#).unwrap();
        let spec =
            ToolSpec::new(Definition::new(name.parse().unwrap(), "Refunds.", schema)).unwrap();
        Arc::clone(spec.contract())
    }

    fn arguments(value: &Value) -> Arguments {
        Arguments::plain(value.as_object().cloned().unwrap())
    }

    fn grant() -> StandingGrant {
        StandingGrant {
            id: GrantId::from_bits(1),
            tool: "refund".parse().unwrap(),
            contract: contract("refund").digest,
            when: vec![
                Condition {
                    field: "/euro".parse().unwrap(),
                    test: Test::AtMost("50".parse().unwrap()),
                },
                Condition {
                    field: "/reason".parse().unwrap(),
                    test: Test::OneOf(vec![json!("late"), json!("lost")]),
                },
            ],
            uses_left: Some(3),
            budget: Some(Budget { field: "/euro".parse().unwrap(), left: "70".parse().unwrap() }),
            expires_at: Some(Timestamp::from_ms(1000)),
            by: Actor::user(ActorId::new("ann").unwrap()),
            at: Timestamp::from_ms(0),
        }
    }

    #[test]
    fn a_grant_covers_only_what_it_says() {
        let check = |args: Value, now| {
            grant().covers(&contract("refund"), &arguments(&args), Timestamp::from_ms(now))
        };
        let used = check(json!({"euro": 49.5, "reason": "late"}), 5).unwrap();
        assert_eq!(used.amount, Some("49.5".parse().unwrap()));
        let error = |args, now| check(args, now).unwrap_err().to_string();
        assert_eq!(
            error(json!({"euro": 51, "reason": "late"}), 5),
            "`/euro` does not meet its condition"
        );
        assert_eq!(
            error(json!({"euro": 5, "reason": "x"}), 5),
            "`/reason` does not meet its condition"
        );
        assert_eq!(error(json!({"reason": "late"}), 5), "`/euro` does not meet its condition");
        assert_eq!(
            error(json!({"euro": "5", "reason": "late"}), 5),
            "`/euro` does not meet its condition"
        );
        assert_eq!(
            error(json!({"euro": -5, "reason": "late"}), 5),
            "`/euro` is not an exact amount"
        );
        assert!(error(json!({"euro": 5, "reason": "late"}), 1000).starts_with("it expired at"));
        let other =
            grant().covers(&contract("charge"), &arguments(&json!({})), Timestamp::default());
        assert_eq!(other, Err(Mismatch::Tool));
    }

    #[test]
    fn count_and_budget_run_out() {
        let mut grant = grant();
        let call = arguments(&json!({"euro": 40, "reason": "late"}));
        let used = grant.covers(&contract("refund"), &call, Timestamp::default()).unwrap();
        grant.consume(&used);
        assert_eq!(grant.uses_left, Some(2));
        let second = grant.covers(&contract("refund"), &call, Timestamp::default()).unwrap_err();
        assert_eq!(second.to_string(), "`/euro` is more than the 30 that is left");
        grant.uses_left = Some(0);
        assert_eq!(
            grant.covers(&contract("refund"), &call, Timestamp::default()),
            Err(Mismatch::UsedUp)
        );
    }

    #[test]
    fn a_tool_that_changed_is_no_longer_covered() {
        let grant = StandingGrant { contract: Digest::ZERO, ..grant() };
        let call = arguments(&json!({"euro": 1, "reason": "late"}));
        let error = grant.covers(&contract("refund"), &call, Timestamp::default());
        assert_eq!(error, Err(Mismatch::Changed));
    }
}
