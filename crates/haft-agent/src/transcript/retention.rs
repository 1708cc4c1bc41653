//! How long results stay in view. What is no longer kept is stubbed: the call keeps its pair.

use std::collections::BTreeMap;

use haft_core::tool::Retention;

use super::{Ended, Item, PairedCall, Transcript};

impl Transcript {
    /// Stubs the results that their tools no longer want in view in `turn`.
    pub fn retain(&mut self, turn: u32, retention: impl Fn(&str) -> Retention) {
        let mut n_newer: BTreeMap<String, u32> = BTreeMap::new();
        for item in self.items.iter_mut().rev() {
            let Item::Assistant { turn: made, calls, .. } = item else { continue };
            for call in calls.iter_mut().rev() {
                let n_newer = n_newer.entry(call.name.clone()).or_default();
                let is_kept = match retention(&call.name) {
                    Retention::Age { turns } => turn.saturating_sub(*made) <= turns,
                    Retention::Count { results } => *n_newer < results,
                    Retention::NeverEvict => true,
                };
                *n_newer += 1;
                if !is_kept {
                    stub(call);
                }
            }
        }
    }
}

pub(super) fn stub(call: &mut PairedCall) {
    call.ended = Ended::Stubbed;
    call.provider_meta = None;
}
