//! What fits: the newest first, pairs whole, and a word about what does not.

use super::{Item, Transcript, render};
use crate::tokens;

/// How much of a model's context the history may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Tokens of history.
    pub tokens: usize,
}

impl Default for Budget {
    /// Fits the models that have the least room today, with space for tools and an answer.
    fn default() -> Self {
        Self { tokens: 100_000 }
    }
}

/// What an item costs beside its text: roles, ids, brackets.
const ITEM_TOKENS: usize = 8;

impl Transcript {
    /// Leaves out the oldest parts until the rest fits. The latest message from outside and all
    /// that follows the last answer stay, whatever they cost: without them there is no question.
    pub fn fit(&mut self, budget: Budget) {
        let last = |is_it: fn(&Item) -> bool| self.items.iter().rposition(is_it);
        let question = last(|item| matches!(item, Item::User { .. }));
        let answer = last(|item| matches!(item, Item::Assistant { .. }));
        let mut left = budget.tokens;
        let mut keep = vec![false; self.items.len()];
        for (at, keep) in keep.iter_mut().enumerate() {
            if Some(at) == question || answer.is_none_or(|answer| at >= answer) {
                *keep = true;
                left = left.saturating_sub(self.items.get(at).map_or(0, cost));
            }
        }
        for (item, keep) in self.items.iter().zip(&mut keep).rev().filter(|(_, keep)| !**keep) {
            let cost = cost(item);
            if cost > left {
                break;
            }
            left -= cost;
            *keep = true;
        }
        let items = keep.iter().filter(|keep| !**keep).count();
        if items == 0 {
            return;
        }
        let mut keep = keep.into_iter();
        self.items.retain(|_| keep.next().unwrap_or(true));
        self.items.insert(0, Item::LeftOut { items });
    }

    /// Returns about how many tokens it is.
    pub fn tokens(&self) -> usize {
        self.items.iter().map(cost).sum()
    }
}

fn cost(item: &Item) -> usize {
    let text = match item {
        Item::User { content } => tokens::count(&render::said(content)),
        Item::Assistant { content, calls, .. } => {
            let calls = calls.iter().map(|call| {
                let arguments = serde_json::Value::Object(call.arguments.clone()).to_string();
                let result = render::result_text(call);
                ITEM_TOKENS + tokens::count(&arguments) + tokens::count(&result)
            });
            tokens::count(&render::said(content)) + calls.sum::<usize>()
        }
        Item::LeftOut { .. } => 0,
    };
    text + ITEM_TOKENS
}
