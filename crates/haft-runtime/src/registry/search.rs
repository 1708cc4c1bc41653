//! Finding tools by words, among more than a model can be shown.
//!
//! Okapi BM25 over name, tags and description, in memory, made when it is first asked for after a
//! change.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use haft_core::permission::Exposure;

use super::Registry;
use super::registered::Registered;

/// How soon repeating a word stops counting.
const SATURATION: f32 = 1.2;
/// How much a long text is discounted.
const LENGTH: f32 = 0.75;
/// How much a word of the name, or a tag, counts beside one of the description.
const NAME_WEIGHT: f32 = 3.0;
const TAG_WEIGHT: f32 = 2.0;
/// A query is a model's text: what is longer is cut.
const QUERY_WORDS: usize = 32;

#[derive(Default)]
pub(super) struct Cache(Mutex<Option<Arc<Index>>>);

struct Index {
    generation: u64,
    tools: Vec<Arc<Registered>>,
    lengths: Vec<f32>,
    length_mean: f32,
    /// Where each word stands, and with what weight.
    postings: HashMap<String, Vec<(usize, f32)>>,
}

impl Registry {
    /// Finds the tools that fit some words best, among those that are active and that `exposure`
    /// permits.
    pub fn search(&self, query: &str, exposure: &Exposure, limit: usize) -> Vec<Arc<Registered>> {
        let index = self.index();
        let mut scores: HashMap<usize, f32> = HashMap::new();
        let mut wanted: Vec<String> = words(query).take(QUERY_WORDS).collect();
        wanted.sort_unstable();
        wanted.dedup();
        for word in &wanted {
            index.score(word, &mut scores);
        }
        let mut ranked: Vec<(usize, f32)> = scores.into_iter().collect();
        // Of equals the one that was registered first.
        ranked.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        let tools = ranked.into_iter().filter_map(|(at, _)| index.tools.get(at));
        tools.filter(|tool| exposure.permits(tool.name())).take(limit).cloned().collect()
    }

    fn index(&self) -> Arc<Index> {
        let mut made = self.0.index.0.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.read();
        if let Some(index) = made.as_ref().filter(|index| index.generation == state.generation) {
            return Arc::clone(index);
        }
        let (generation, tools) = (state.generation, state.ordered.values().cloned().collect());
        drop(state);
        let index = Arc::new(Index::of(generation, tools));
        *made = Some(Arc::clone(&index));
        index
    }
}

impl Index {
    fn of(generation: u64, tools: Vec<Arc<Registered>>) -> Self {
        let tools: Vec<_> = tools.into_iter().filter(|tool| tool.is_advertised()).collect();
        let mut postings: HashMap<String, Vec<(usize, f32)>> = HashMap::new();
        let mut lengths = Vec::with_capacity(tools.len());
        for (at, tool) in tools.iter().enumerate() {
            let weights = weights(tool);
            lengths.push(weights.values().sum());
            for (word, weight) in weights {
                postings.entry(word).or_default().push((at, weight));
            }
        }
        let length_mean = lengths.iter().sum::<f32>() / tools.len().max(1) as f32;
        Self { generation, tools, lengths, length_mean, postings }
    }

    fn score(&self, word: &str, scores: &mut HashMap<usize, f32>) {
        let Some(postings) = self.postings.get(word) else { return };
        let (all, with) = (self.tools.len() as f32, postings.len() as f32);
        let rarity = (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
        for &(at, weight) in postings {
            let length = self.lengths.get(at).copied().unwrap_or_default() / self.length_mean;
            let damped = weight + SATURATION * (1.0 - LENGTH + LENGTH * length);
            *scores.entry(at).or_default() += rarity * weight * (SATURATION + 1.0) / damped;
        }
    }
}

fn weights(tool: &Registered) -> HashMap<String, f32> {
    let spec = tool.spec();
    let mut weights: HashMap<String, f32> = HashMap::new();
    let mut add = |text: &str, weight| {
        for word in words(text) {
            *weights.entry(word).or_default() += weight;
        }
    };
    add(spec.name.as_str(), NAME_WEIGHT);
    spec.tags.iter().for_each(|tag| add(tag, TAG_WEIGHT));
    add(&spec.description, 1.0);
    weights
}

/// Words without case and without the plural's `s`.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(|word| {
        let word = word.to_lowercase();
        match word.strip_suffix('s') {
            Some(stem) if stem.len() > 2 && !stem.ends_with('s') => stem.to_owned(),
            _ => word,
        }
    })
}
