//! Estimates how many tokens a text is.
//!
//! Every vendor has a tokenizer of its own and some publish none, so the count is an estimate: the
//! text is cut into words, numbers, punctuation and white space, and each piece has a weight.
//! The weights were fitted to OpenAI's `o200k_base` vocabulary over source code, JSON, prose, logs
//! and the translations of 150 languages; `tests` holds the measured error. What a provider
//! reports after each answer corrects the estimate for the rest of the session ([`Correction`]).

use haft_core::session::{ContextUse, Counted, Usage};

use crate::transcript::Budget;

/// Returns about how many tokens a text is. Linear in the text, whatever the text.
pub fn count(text: &str) -> usize {
    let mut hundredths = 0;
    let mut rest = text.as_bytes();
    while let Some(&first) = rest.first() {
        let (length, weight) = match first {
            b'a'..=b'z' | b'A'..=b'Z' => word(rest),
            b'0'..=b'9' => {
                let length = run(rest, |byte| byte.is_ascii_digit());
                (length, 135 * length.div_ceil(3))
            }
            b' ' | b'\t' | b'\n' | b'\r' => blank(rest),
            0..=0x7f => {
                let length = run(rest, is_other_ascii);
                (length, 74 + 20 * (length - 1))
            }
            0x80.. => character(rest),
        };
        hundredths += weight;
        rest = rest.get(length..).unwrap_or_default();
    }
    hundredths.div_ceil(100)
}

/// How many tokens the provider counts for each that is estimated, as its latest answer showed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Correction {
    percent: usize,
}

impl Correction {
    /// A provider may add much to a short request, and count pictures that we do not: what lies
    /// outside of this is not about how it counts text.
    const PERCENT: std::ops::RangeInclusive<u64> = 50..=300;

    /// Compares what a provider counted for a request with what was estimated, or keeps the
    /// correction so far when the answer says nothing about it.
    #[must_use]
    pub fn from_answer(usage: &Usage, context: &ContextUse, so_far: Self) -> Self {
        if usage.counted != Counted::Provider || context.estimate == 0 {
            return so_far;
        }
        let percent = usage.input.saturating_mul(100) / context.estimate;
        let percent = percent.clamp(*Self::PERCENT.start(), *Self::PERCENT.end());
        Self { percent: usize::try_from(percent).unwrap_or(100) }
    }

    /// Returns how many tokens the provider would count for an estimate.
    pub fn counted(self, estimate: usize) -> usize {
        estimate.saturating_mul(self.percent) / 100
    }

    /// Returns the budget in estimated tokens that fills a budget of the provider's tokens.
    pub fn estimated(self, budget: Budget) -> Budget {
        let tokens = budget.tokens as u128 * 100 / self.percent as u128;
        Budget { tokens: usize::try_from(tokens).unwrap_or(usize::MAX) }
    }
}

impl Default for Correction {
    fn default() -> Self {
        Self { percent: 100 }
    }
}

/// A word ends where a capital follows a small letter, as tokenizers cut `camelCase`.
fn word(text: &[u8]) -> (usize, usize) {
    let goes_on = |pair: &&[u8]| match pair {
        [before, next] => {
            next.is_ascii_alphabetic()
                && !(next.is_ascii_uppercase() && before.is_ascii_lowercase())
        }
        _ => false,
    };
    let length = 1 + text.windows(2).take_while(goes_on).count();
    let letters = text.get(..length).unwrap_or_default();
    let n_capitals = letters.iter().filter(|letter| letter.is_ascii_uppercase()).count();
    let n_long = length.saturating_sub(6);
    let weight = if n_capitals > 1 { 193 + 40 * n_long } else { 93 + 17 * n_long };
    (length, weight)
}

/// A single space belongs to the word behind it.
fn blank(text: &[u8]) -> (usize, usize) {
    let length = run(text, is_blank);
    let is_single_space = length == 1 && text.first() == Some(&b' ');
    let long_runs = 100 * (length / 64);
    (length, if is_single_space { 0 } else { 119 + long_runs })
}

/// A character outside ASCII, weighed by its script.
fn character(text: &[u8]) -> (usize, usize) {
    let (length, first) = match text.first().copied().unwrap_or_default() {
        byte @ 0xc0..=0xdf => (2, byte & 0x1f),
        byte @ 0xe0..=0xef => (3, byte & 0x0f),
        byte => (4, byte & 0x07),
    };
    let tail = text.get(1..length).unwrap_or_default();
    let code = tail.iter().fold(u32::from(first), |code, byte| code << 6 | u32::from(byte & 0x3f));
    let weight = match code {
        0x300..0x370 => 20,    // combining marks, part of the letter before them
        ..0x300 => 160,        // Latin with accents, and signs such as § and °
        0x370..0x590 => 33,    // Greek, Cyrillic, Armenian
        0x590..0x900 => 42,    // Hebrew, Arabic
        0x900..0xe00 => 38,    // the scripts of India
        0xe00..0x10a0 => 64,   // Thai, Lao, Tibetan, Burmese
        0x2000..0x2070 => 127, // typographic punctuation
        0x3040..0xa000 | 0xac00..0xd7b0 | 0xf900..0xfb00 => 78, // Chinese, Japanese, Korean
        _ => 75,
    };
    (length, weight)
}

fn run(text: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    text.iter().take_while(|byte| belongs(**byte)).count()
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn is_other_ascii(byte: u8) -> bool {
    byte.is_ascii() && !byte.is_ascii_alphanumeric() && !is_blank(byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of each kind with the count of `o200k_base`, made by the program that fitted the
    /// weights: `{"kind": .., "text": .., "tokens": ..}` a line.
    const SAMPLES: &str = include_str!("../tests/data/token-samples.jsonl");

    fn error_by_kind() -> std::collections::BTreeMap<String, (f64, f64)> {
        let mut sums = std::collections::BTreeMap::<String, (f64, f64)>::new();
        for line in SAMPLES.lines() {
            let sample: serde_json::Value = serde_json::from_str(line).unwrap();
            let sum = sums.entry(sample["kind"].as_str().unwrap().to_owned()).or_default();
            sum.0 += count(sample["text"].as_str().unwrap()) as f64;
            sum.1 += sample["tokens"].as_f64().unwrap();
        }
        sums
    }

    #[test]
    fn the_estimate_is_close_to_a_real_vocabulary_for_what_agents_read() {
        for (kind, (estimate, tokens)) in error_by_kind() {
            let allowed = match kind.as_str() {
                "code" | "json" | "logs" | "prose" => 0.08,
                _ => 0.25,
            };
            let off = (estimate - tokens) / tokens;
            assert!(off.abs() < allowed, "{kind}: {estimate} estimated, {tokens} counted");
        }
    }

    #[test]
    fn an_estimate_is_linear_in_the_text() {
        assert_eq!(count(""), 0);
        assert_eq!(count("hello world"), 2);
        assert!(count(&" ".repeat(200_000)) < 10_000);
        assert!(count(&"a".repeat(200_000)) < 100_000);
        assert!(count(&"ACGT".repeat(50_000)) > 20_000, "long words are not free");
        assert!(count(&"\u{301}".repeat(50_000)) > 5_000, "nor are combining marks");
    }

    #[test]
    fn a_providers_own_count_corrects_the_estimate() {
        let usage = |input, counted| Usage { input, output: 1, cache_read: 0, counted };
        let context = ContextUse { estimate: 1000, ..ContextUse::default() };
        let told = |usage| Correction::from_answer(&usage, &context, Correction::default());
        let corrected = told(usage(1300, Counted::Provider));
        assert_eq!(corrected.counted(1000), 1300);
        assert_eq!(corrected.estimated(Budget { tokens: 130_000 }).tokens, 100_000);
        assert_eq!(told(usage(1300, Counted::Haft)), Correction::default(), "our own count");
        assert_eq!(told(usage(90_000, Counted::Provider)).counted(100), 300, "bounded");
        assert_eq!(Correction::default().estimated(Budget { tokens: 1050 }).tokens, 1050);
        let everything = Budget { tokens: usize::MAX };
        assert!(corrected.estimated(everything).tokens > usize::MAX / 2);
    }
}
