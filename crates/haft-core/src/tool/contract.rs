//! What a call remembers of its tool.
//!
//! A call may wait for a week and be run by a newer binary. So it carries the terms under which
//! it was proposed: enough for the session machine to decide without the registry, and a digest
//! that tells whether the tool has changed meanwhile.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::behaviour::{
    Concurrency, Executor, Gate, Hook, InterruptBehavior, Ownership, Pool, Retry, Version,
};
use super::cost::Spending;
use super::definition::{Definition, is_default};
use super::facets::{Classification, Idempotency, Mode, Mutates, Reach, ResolvedFacets, Spend};
use crate::digest::Digest;
use crate::name::ToolName;
use crate::time::Millis;

/// The terms under which a tool's calls are run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Contract {
    /// The tool's name.
    pub tool: ToolName,
    /// The definition's version.
    pub version: Version,
    /// Changes when schema, behaviour or oversight change, not when wording does.
    pub digest: Digest,
    /// Who owns the capability.
    pub ownership: Ownership,
    /// Who produces the result.
    pub executor: Executor,
    /// Whether the definition asks for a person.
    pub gate: Gate,
    /// Document 000's mode, if anything classifies the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// How far it changes anything.
    pub mutates: Mutates,
    /// Where it reaches.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub reach: BTreeSet<Reach>,
    /// Whether a registered undo can take a call back.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reversal: Reversal,
    /// What is done with a call that ended without a result.
    pub recovery: Recovery,
    /// What an interrupt does to a running call.
    #[serde(default, skip_serializing_if = "is_default")]
    pub interrupt: InterruptBehavior,
    /// What runs beside it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub concurrency: Concurrency,
    /// What bounds how many calls run at once on a node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<Pool>,
    /// How long one attempt may run, from when it was sent.
    pub exec_timeout: Millis,
    /// How long a call may wait for someone.
    pub suspend_ttl: Millis,
    /// When a failed attempt is made again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retry: Retry,
    /// Whether there is a preview to show before approval.
    #[serde(default, skip_serializing_if = "is_default")]
    pub preview: Preview,
    /// What a call may spend.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spending: Spending,
}

/// What is done with a call of which nobody knows whether it took effect: its process died, it ran
/// out of time, it was told to stop, or its tool says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recovery {
    /// It only looks, or repeating it changes nothing: run it again.
    Rerun,
    /// The other side recognises the key: run it again with the same key.
    RerunKeyed,
    /// Ask the tool's own verify hook what happened.
    Verify,
    /// Nobody but a person can tell.
    Ask,
}

/// Whether a call can be taken back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reversal {
    /// No undo is registered.
    #[default]
    None,
    /// An undo is registered.
    Undo,
}

/// Whether a tool can show what a call would do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preview {
    /// It cannot.
    #[default]
    None,
    /// It can, and approvals are bound to what was shown.
    Shown,
}

impl Contract {
    pub(super) fn of(definition: &Definition, facets: &ResolvedFacets) -> Self {
        Self {
            tool: definition.name.clone(),
            version: definition.version.clone(),
            digest: behaviour_digest(definition, facets),
            ownership: definition.ownership,
            executor: definition.executor,
            gate: definition.gate,
            mode: facets.mode(),
            mutates: facets.mutates,
            reach: facets.reach.clone(),
            reversal: if definition.undo.is_some() { Reversal::Undo } else { Reversal::None },
            recovery: recovery(definition, facets),
            interrupt: definition.interrupt,
            concurrency: definition.concurrency,
            pools: definition.pools.clone(),
            exec_timeout: definition.exec_timeout,
            suspend_ttl: definition.suspend_ttl,
            retry: definition.retry.clone(),
            preview: match definition.hooks.contains(&Hook::Preview) {
                true => Preview::Shown,
                false => Preview::None,
            },
            spending: spending(definition),
        }
    }

    /// Returns whether a call certainly changes nothing: that is declared, for a tool of our own
    /// that may be run again. A name and another server's hint are guesses.
    pub fn only_reads(&self) -> bool {
        self.mutates == Mutates::None && self.recovery == Recovery::Rerun
    }
}

/// Only what is declared, about a tool of our own, lets a call run a second time by itself: a
/// name is a guess, and another server's hint is a claim.
fn recovery(definition: &Definition, facets: &ResolvedFacets) -> Recovery {
    let ours = definition.ownership == Ownership::Managed;
    let declared = matches!(facets.classification, Classification::Declared);
    match definition.facets.idempotency {
        Some(Idempotency::Keyed) => return Recovery::RerunKeyed,
        Some(Idempotency::Idempotent) if ours => return Recovery::Rerun,
        None if ours && declared && facets.is_read_only() => return Recovery::Rerun,
        Some(Idempotency::Idempotent | Idempotency::Unsafe) | None => {}
    }
    if definition.hooks.contains(&Hook::Verify) { Recovery::Verify } else { Recovery::Ask }
}

fn spending(definition: &Definition) -> Spending {
    match (&definition.cost, definition.facets.spend) {
        (Some(cost), _) => Spending::Told(cost.clone()),
        (None, Some(Spend::Possible)) => Spending::Untold,
        (None, Some(Spend::None)) => Spending::Nothing,
        (None, None) => Spending::Undeclared,
    }
}

fn behaviour_digest(definition: &Definition, facets: &ResolvedFacets) -> Digest {
    let mut behaviour = json!({
        "input": definition.input_schema.hash(),
        "output": definition.output_schema.as_ref().map(|schema| schema.hash()),
        "ownership": definition.ownership,
        "executor": definition.executor,
        "mutates": facets.mutates,
        "reach": facets.reach,
        "idempotency": facets.idempotency,
        "spend": facets.spend,
        "process": facets.process,
        "fs": facets.fs,
        "scope": facets.scope,
        "injected": definition.injected,
        "major": definition.version.major,
        "gate": definition.gate,
        "mode": facets.mode(),
        "preconditions": definition.preconditions,
        "redaction": definition.redaction,
        "undone_by": definition.undo.as_ref().map(|undo| &undo.tool),
    });
    if let (Some(cost), Value::Object(behaviour)) = (&definition.cost, &mut behaviour) {
        behaviour.insert("cost".to_owned(), json!(cost));
    }
    Digest::of_json(&behaviour)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::{Facets, Precondition, Schema, ToolSpec};

    fn definition() -> Definition {
        let schema = Schema::new(r#"{"type":"object"}"#).unwrap();
        Definition::new("charge".parse().unwrap(), "Charges a card.", schema)
    }

    fn contract(change: impl FnOnce(&mut Definition)) -> Contract {
        let mut definition = definition();
        change(&mut definition);
        Contract::clone(ToolSpec::new(definition).unwrap().contract())
    }

    // S4-26, C20: what follows a crash is decided by what the tool declares.
    #[test]
    fn recovery_follows_from_what_is_declared() {
        let with = |idempotency, mutates| Facets {
            idempotency: Some(idempotency),
            mutates: Some(mutates),
            ..Facets::default()
        };
        let unsafe_read = contract(|d| d.facets = with(Idempotency::Unsafe, Mutates::None));
        assert_eq!(unsafe_read.recovery, Recovery::Ask, "a declared `unsafe` wins");
        let read = contract(|d| d.facets.mutates = Some(Mutates::None));
        assert_eq!(read.recovery, Recovery::Rerun);
        let hinted = contract(|d| {
            d.ownership = Ownership::Mcp;
            d.facets.mutates = Some(Mutates::None);
        });
        assert_eq!(hinted.recovery, Recovery::Ask, "another server's word is not enough");
        let named = contract(|d| d.name = "get_next_job".parse().unwrap());
        assert_eq!(named.recovery, Recovery::Ask, "nor is a name");
        let keyed = contract(|d| d.facets = with(Idempotency::Keyed, Mutates::Irreversible));
        assert_eq!(keyed.recovery, Recovery::RerunKeyed);
        let idempotent = contract(|d| d.facets = with(Idempotency::Idempotent, Mutates::Bounded));
        assert_eq!(idempotent.recovery, Recovery::Rerun);
        let verify = contract(|d| {
            d.hooks.insert(Hook::Verify);
        });
        assert_eq!(verify.recovery, Recovery::Verify);
        assert_eq!(contract(|_| {}).recovery, Recovery::Ask);
    }

    #[test]
    fn the_digest_changes_with_behaviour_and_not_with_wording() {
        let base = contract(|_| {});
        assert_eq!(contract(|d| d.description = "Other words.".into()).digest, base.digest);
        let schema = Schema::new(r#"{"type":"object","properties":{"a":{}}}"#).unwrap();
        assert_ne!(contract(|d| d.input_schema = schema).digest, base.digest);
        assert_ne!(contract(|d| d.facets.mutates = Some(Mutates::None)).digest, base.digest);
    }

    // What a person would be asked about, what must hold and what is kept from the log are terms
    // of a call too.
    #[test]
    fn the_digest_changes_with_oversight() {
        let base = contract(|_| {});
        assert_ne!(contract(|d| d.gate = Gate::Ask).digest, base.digest);
        let gated = contract(|d| {
            d.preconditions.insert(Precondition::OutcomePass);
        });
        assert_ne!(gated.digest, base.digest);
        let masked = contract(|d| d.redaction.secret.push("/card".parse().unwrap()));
        assert_ne!(masked.digest, base.digest);
        assert_ne!(contract(|d| d.mode = Some(Mode::Read)).digest, base.digest);
    }
}
