//! What a model is shown of a history: the newest first, pairs whole, results as long as their
//! tools want them kept, and a word about what is not shown.

use std::collections::BTreeMap;
use std::fmt;

use haft_core::tool::Retention;

use super::history::{History, Kind, Part, Slot};
use super::{Ended, Item, PairedCall, Transcript, render};
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

/// How a history is looked at.
pub struct View<'a> {
    /// The turn in which it is.
    pub turn: u32,
    /// How much may be shown.
    pub budget: Budget,
    /// How long the results of a tool stay in view.
    pub retention: &'a dyn Fn(&str) -> Retention,
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("turn", &self.turn).field("budget", &self.budget).finish()
    }
}

impl View<'static> {
    /// Leaves nothing out.
    pub fn everything() -> Self {
        let budget = Budget { tokens: usize::MAX };
        Self { turn: 0, budget, retention: &|_| Retention::NeverEvict }
    }
}

/// What an item costs beside its text: roles, ids, brackets.
const ITEM_TOKENS: usize = 8;

impl History {
    /// Shows the newest parts that fit. The latest message from outside and all that follows the
    /// last answer stay, whatever they cost: without them there is no question. Older parts are
    /// not even looked at.
    pub fn view(&mut self, view: &View<'_>) -> Transcript {
        let last = |is_it: fn(&Kind) -> bool| self.parts.iter().rposition(|p| is_it(&p.kind));
        let question = last(|kind| matches!(kind, Kind::User(_)));
        let answer = last(|kind| matches!(kind, Kind::Answer { .. }));
        let must = |at| Some(at) == question || answer.is_none_or(|answer| at >= answer);
        let mut left = view.budget.tokens;
        if let Some(question) = question.filter(|at| answer.is_some_and(|answer| *at < answer)) {
            left = left.saturating_sub(self.parts.get_mut(question).map_or(0, Part::tokens));
        }
        let mut kept =
            Kept { retention: view.retention, turn: view.turn, n_newer: BTreeMap::new() };
        let (mut items, mut left_out, mut is_full) = (Vec::new(), 0, false);
        for (at, part) in self.parts.iter_mut().enumerate().rev() {
            if is_full && at < question.unwrap_or(0) {
                left_out += at + 1;
                break;
            }
            if is_full && !must(at) {
                left_out += 1;
                continue;
            }
            let Some(shown) = kept.item(part, question.is_none_or(|question| at > question)) else {
                continue;
            };
            let Shown { item, is_whole } = shown;
            let tokens = if is_whole { part.tokens() } else { cost(&item) };
            if !must(at) && tokens > left {
                (is_full, left_out) = (true, left_out + 1);
                continue;
            }
            if Some(at) != question || answer.is_none_or(|answer| at >= answer) {
                left = left.saturating_sub(tokens);
            }
            items.push(item);
        }
        if left_out > 0 {
            items.push(Item::LeftOut { items: left_out });
        }
        if let Some(summary) = self.summary() {
            items.push(Item::Summary { text: summary.text.clone() });
        }
        items.reverse();
        Transcript { items }
    }
}

impl History {
    /// Returns what each turn costs, oldest first.
    pub(crate) fn turn_costs(&mut self) -> Vec<(u32, usize)> {
        let mut costs: Vec<(u32, usize)> = Vec::new();
        for part in &mut self.parts {
            let tokens = part.tokens();
            match costs.last_mut() {
                Some((turn, sum)) if *turn == part.turn => *sum += tokens,
                Some(_) | None => costs.push((part.turn, tokens)),
            }
        }
        costs
    }

    /// Shows what a summary through this turn is to cover, as far as it fits, with the summary
    /// before it.
    pub(crate) fn covered(&mut self, through: u32, budget: Budget) -> Transcript {
        let mut left = budget.tokens;
        let mut items = Vec::new();
        let mut kept =
            Kept { retention: &|_| Retention::NeverEvict, turn: 0, n_newer: BTreeMap::new() };
        let covered = self.parts.iter_mut().rev().filter(|part| part.turn <= through);
        for part in covered {
            let tokens = part.tokens();
            if tokens > left {
                items.push(Item::LeftOut { items: 1 });
                break;
            }
            left -= tokens;
            items.extend(kept.item(part, false).map(|shown| shown.item));
        }
        if let Some(summary) = self.summary() {
            items.push(Item::Summary { text: summary.text.clone() });
        }
        items.reverse();
        Transcript { items }
    }
}

/// A part as it is shown.
struct Shown {
    item: Item,
    /// Whether it costs what the part costs by itself.
    is_whole: bool,
}

impl Shown {
    fn whole(item: Item) -> Self {
        Self { item, is_whole: true }
    }
}

/// Counts, from the newest on, what its tools want to keep.
struct Kept<'a> {
    retention: &'a dyn Fn(&str) -> Retention,
    turn: u32,
    n_newer: BTreeMap<String, u32>,
}

impl Kept<'_> {
    /// Returns a part as it is shown, if there is anything to show.
    fn item(&mut self, part: &Part, is_current: bool) -> Option<Shown> {
        match &part.kind {
            Kind::User(content) if content.is_empty() => None,
            Kind::User(content) => Some(Shown::whole(Item::User { content: content.clone() })),
            Kind::Note(text) => Some(Shown::whole(Item::Note { text: text.clone() })),
            Kind::Answer { content, provider_meta, calls } => {
                let calls: Vec<_> = self.calls(part.turn, calls);
                if content.is_empty() && calls.is_empty() {
                    return None;
                }
                // Providers want their own words back within the work on one question only.
                let provider_meta = provider_meta.clone().filter(|_| is_current);
                let (turn, content) = (part.turn, content.clone());
                let is_stubbed = calls.iter().any(|call| call.ended == Ended::Stubbed);
                let is_whole = !is_stubbed && provider_meta.is_none();
                let item = Item::Assistant { turn, content, calls, provider_meta };
                Some(Shown { item, is_whole })
            }
        }
    }

    fn calls(&mut self, made: u32, slots: &[Slot]) -> Vec<PairedCall> {
        let ended = slots.iter().rev().filter(|slot| slot.has_ended);
        let mut calls: Vec<_> = ended.map(|slot| self.call(made, &slot.call)).collect();
        calls.reverse();
        calls
    }

    fn call(&mut self, made: u32, call: &PairedCall) -> PairedCall {
        let retention = (self.retention)(&call.name);
        let n_newer = self.n_newer.entry(call.name.clone()).or_default();
        let is_kept = match retention {
            Retention::Age { turns } => self.turn.saturating_sub(made) <= turns,
            Retention::Count { results } => *n_newer < results,
            Retention::NeverEvict => true,
        };
        *n_newer += 1;
        if is_kept {
            return call.clone();
        }
        PairedCall { ended: Ended::Stubbed, provider_meta: None, ..call.clone() }
    }
}

impl Part {
    fn tokens(&mut self) -> usize {
        if let Some(tokens) = self.tokens {
            return tokens;
        }
        let view = View::everything();
        let mut kept = Kept { retention: view.retention, turn: 0, n_newer: BTreeMap::new() };
        let tokens = kept.item(self, false).map_or(0, |shown| cost(&shown.item));
        self.tokens = Some(tokens);
        tokens
    }
}

pub(super) fn cost(item: &Item) -> usize {
    let text = match item {
        Item::User { content } => tokens::count(&render::said(content)),
        Item::Assistant { content, calls, provider_meta, .. } => {
            let calls = calls.iter().map(|call| {
                let arguments = serde_json::Value::Object(call.arguments.clone()).to_string();
                let result = render::result_text(call);
                ITEM_TOKENS + tokens::count(&arguments) + tokens::count(&result)
            });
            let meta = provider_meta.as_ref().map_or(0, |meta| tokens::count(&meta.to_string()));
            tokens::count(&render::said(content)) + calls.sum::<usize>() + meta
        }
        Item::Note { text } | Item::Summary { text } => tokens::count(text),
        Item::LeftOut { .. } => 0,
    };
    text + ITEM_TOKENS
}
