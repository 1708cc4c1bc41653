//! Tools that changed while calls of them waited.

use std::fmt;
use std::sync::Arc;

use haft_core::session::{Call, Fit, Open, ToolChange};
use haft_core::tool::Contract;
use serde_json::Value;

use super::Toolbox;
use crate::registry::Registered;
use crate::schema::find_references;

impl Toolbox {
    /// Returns how a call's tool has changed since the call was admitted, if it has.
    pub(super) fn change(&self, open: &Open, call: &Call) -> Option<ToolChange> {
        let toolset = &open.config.toolset;
        let Some(registered) = self.tool(toolset, call.contract.tool.as_str()) else {
            return Some(ToolChange::Gone);
        };
        let contract = registered.spec().contract();
        if contract.digest == call.contract.digest {
            return None;
        }
        Some(ToolChange::Redefined {
            contract: Arc::clone(contract),
            fit: fit(&registered, call),
            changes: changes(&call.contract, contract),
        })
    }
}

/// Whether a call's arguments fit the tool as it is now. What is secret or pointed at cannot be
/// seen here, and is checked when the call runs.
fn fit(registered: &Registered, call: &Call) -> Fit {
    let record = call.arguments.record();
    let references = find_references(record).into_iter().map(|reference| reference.place);
    let unseen: Vec<_> =
        registered.spec().redaction.secret.iter().cloned().chain(references).collect();
    match registered.input().check_except(&Value::Object(record.clone()), &unseen) {
        Ok(()) => Fit::Fits,
        Err(misfit) => Fit::Misfit { message: misfit.to_string() },
    }
}

/// What changed, for the approver.
fn changes(old: &Contract, new: &Contract) -> String {
    let changed = |what: &str, old: &dyn fmt::Debug, new: &dyn fmt::Debug| {
        let (old, new) = (format!("{old:?}"), format!("{new:?}"));
        (old != new).then(|| format!("{what}: {old} became {new}"))
    };
    let version = (old.version != new.version)
        .then(|| format!("version: {} became {}", old.version, new.version));
    let said: Vec<_> = [
        version,
        changed("executor", &old.executor, &new.executor),
        changed("gate", &old.gate, &new.gate),
        changed("what it changes", &old.mutates, &new.mutates),
        changed("what it reaches", &old.reach, &new.reach),
        changed("after a crash", &old.recovery, &new.recovery),
    ]
    .into_iter()
    .flatten()
    .collect();
    match said.is_empty() {
        true => "its schemas or its behaviour are not what they were".to_owned(),
        false => said.join("; "),
    }
}
