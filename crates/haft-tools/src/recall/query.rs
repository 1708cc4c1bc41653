//! What is looked for, and how much a text has of it.

/// Words that say nothing about what is meant.
const STOP_WORDS: [&str; 18] = [
    "and", "as", "at", "be", "by", "for", "from", "in", "is", "it", "of", "on", "or", "that",
    "the", "this", "to", "with",
];
const PHRASE_CHARS: std::ops::RangeInclusive<usize> = 2..=160;
const SNIPPET_CHARS: usize = 180;
const SNIPPET_LEAD: usize = 40;

/// A query, taken apart. Every part is folded, as the texts are that it is held against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Query {
    whole: String,
    terms: Vec<String>,
    phrases: Vec<String>,
    paths: Vec<String>,
    identifiers: Vec<String>,
}

/// What a text is worth for a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Scored {
    pub(crate) score: u32,
    pub(crate) reasons: Vec<String>,
    /// The place of the first part that was found, in characters.
    anchor: Option<usize>,
}

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let whole = collapsed(&folded(text));
        let phrases = phrases(&whole);
        let tokens = || {
            let trimmed = whole.split_whitespace().map(|token| token.trim_matches(is_wrapping));
            trimmed.filter(|token| !token.is_empty())
        };
        let paths = distinct(tokens().filter(|token| token.contains(['/', '.', ':'])));
        let identifiers = distinct(tokens().filter(|token| is_identifier(token)));
        let words = whole.split(|c: char| !c.is_alphanumeric()).flat_map(terms_of);
        let telling = words.filter(|word| !STOP_WORDS.contains(&word.as_str()));
        let terms = distinct(telling);
        Self { whole, terms, phrases, paths, identifiers }
    }

    /// Whether there is nothing to look for.
    pub(crate) fn is_empty(&self) -> bool {
        self.whole.is_empty()
    }

    /// How much of the query is in a text.
    pub(crate) fn score(&self, text: &str) -> Scored {
        let text = folded(text);
        let mut scored = Scored::default();
        if self.is_empty() {
            return scored;
        }
        if let Some(at) = collapsed_find(&text, &self.whole) {
            scored.add(6, "exact-query".to_owned(), at);
        }
        for (parts, worth, reason) in [
            (&self.phrases, 4, "exact-phrase"),
            (&self.paths, 5, "path-match"),
            (&self.identifiers, 3, "identifier-match"),
            (&self.terms, 1, "term-overlap"),
        ] {
            let places: Vec<usize> =
                parts.iter().filter_map(|part| text.find(part.as_str())).collect();
            let n = u32::try_from(places.len()).unwrap_or(u32::MAX);
            if let Some(first) = places.into_iter().min() {
                let at = text.get(..first).map_or(0, |before| before.chars().count());
                scored.add(n.saturating_mul(worth), format!("{reason}:{n}"), at);
            }
        }
        scored
    }

    /// How many of the query's terms a text has, of how many.
    pub(crate) fn coverage(&self, text: &str) -> (usize, usize) {
        let text = folded(text);
        let found = self.terms.iter().filter(|term| text.contains(term.as_str())).count();
        (found, self.terms.len())
    }

    /// The part of a text around the first thing that was found.
    pub(crate) fn snippet(&self, text: &str) -> String {
        let anchor = self.score(text).anchor.unwrap_or(0);
        let part: String =
            text.chars().skip(anchor.saturating_sub(SNIPPET_LEAD)).take(SNIPPET_CHARS).collect();
        collapsed(&part)
    }
}

impl Scored {
    fn add(&mut self, worth: u32, reason: String, at: usize) {
        self.score = self.score.saturating_add(worth);
        self.reasons.push(reason);
        self.anchor = Some(self.anchor.map_or(at, |anchor| anchor.min(at)));
    }
}

/// Lower case, one character for each, so that places stay what they are.
pub(super) fn folded(text: &str) -> String {
    text.chars().map(|c| c.to_lowercase().next().unwrap_or(c)).collect()
}

fn collapsed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Finds a text whose white space is single spaces, whatever white space there is.
fn collapsed_find(text: &str, wanted: &str) -> Option<usize> {
    if let Some(at) = text.find(wanted) {
        return text.get(..at).map(|before| before.chars().count());
    }
    collapsed(text).contains(wanted).then_some(0)
}

fn distinct(parts: impl Iterator<Item = impl Into<String>>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for part in parts {
        let part = part.into();
        if !kept.contains(&part) {
            kept.push(part);
        }
    }
    kept
}

/// Quoted or back-ticked parts.
fn phrases(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for quote in ['"', '`', '\''] {
        let mut parts = text.split(quote).skip(1);
        while let Some(part) = parts.next() {
            // What follows the closing quote is outside.
            if parts.next().is_some() && PHRASE_CHARS.contains(&part.trim().chars().count()) {
                found.push(part.trim().to_owned());
            }
        }
    }
    distinct(found.into_iter())
}

fn is_wrapping(c: char) -> bool {
    !c.is_alphanumeric() && !matches!(c, '/' | '_' | '-')
}

fn is_identifier(token: &str) -> bool {
    let joined = token.trim_matches(['_', '-']).contains(['_', '-']);
    let mixed = token.chars().any(char::is_alphabetic) && token.chars().any(|c| c.is_ascii_digit());
    joined || (mixed && token.chars().all(char::is_alphanumeric))
}

/// A word, or where words are not set apart every two characters of it.
fn terms_of(word: &str) -> Vec<String> {
    let letters: Vec<char> = word.chars().collect();
    match letters.len() {
        0 => Vec::new(),
        1 if is_unspaced(letters[0]) => vec![word.to_owned()],
        1 => Vec::new(),
        _ if letters.iter().any(|&c| is_unspaced(c)) => {
            letters.windows(2).map(|pair| pair.iter().collect()).collect()
        }
        _ => vec![word.to_owned()],
    }
}

/// Whether a character belongs to a script that sets no spaces between words.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{0e00}'..='\u{0eff}' // Thai, Lao
        | '\u{1000}'..='\u{109f}' // Myanmar
        | '\u{1780}'..='\u{17ff}' // Khmer
        | '\u{3040}'..='\u{30ff}' // Hiragana, Katakana
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' // Han
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3134f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn s2_60_a_query_is_taken_apart_by_the_documents_rules() {
        let query = Query::parse("Fix the `retry loop` in src/main.rs for call_id v2");
        assert_eq!(query.phrases, ["retry loop"]);
        assert_eq!(query.paths, ["src/main.rs"]);
        assert_eq!(query.identifiers, ["call_id", "v2"]);
        let terms = ["fix", "retry", "loop", "src", "main", "rs", "call", "id", "v2"];
        assert_eq!(query.terms, terms);
    }

    // The exact numbers: 6 for the whole, 4 a phrase, 5 a path, 3 an identifier, 1 a term.
    #[test]
    fn s2_60_a_text_is_worth_what_the_document_says() {
        let worth = |query: &str, text: &str| Query::parse(query).score(text).score;
        assert_eq!(worth("tests pass", "all Tests  PASS here"), 6 + 2);
        assert_eq!(worth("tests pass", "the tests did not"), 1);
        assert_eq!(worth("\"tests pass\" quickly", "tests pass"), 4 + 2);
        assert_eq!(worth("look at src/main.rs", "in src/main.rs"), 5 + 3);
        assert_eq!(worth("look at call_id now", "a call_id"), 3 + 2);
        assert_eq!(worth("the of", "the of"), 6);
        assert_eq!(worth("", "anything"), 0);
        let scored = Query::parse("look at src/main.rs").score("in src/main.rs");
        assert_eq!(scored.reasons, ["path-match:1", "term-overlap:3"]);
    }

    // D15: words of scripts without spaces are found too.
    #[test]
    fn d15_a_query_works_in_scripts_without_spaces() {
        assert!(Query::parse("測試全部通過").score("結果:測試全部通過。").score >= 6);
        let partly = Query::parse("測試全部通過").score("全部通過了").score;
        assert_eq!(partly, 3);
        assert!(Query::parse("тесты прошли").score("Все ТЕСТЫ ПРОШЛИ").score >= 8);
    }

    #[test]
    fn a_snippet_starts_shortly_before_what_was_found() {
        let text = format!("{}needle and more{}", "x".repeat(100), "y".repeat(300));
        let snippet = Query::parse("needle").snippet(&text);
        assert_eq!(snippet.chars().count(), 180);
        assert!(snippet.starts_with(&"x".repeat(40)), "{snippet}");
        assert!(snippet.get(40..).is_some_and(|rest| rest.starts_with("needle")));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

        // Whatever is asked and read: the same answer again, and a text that holds the query
        // whole is worth at least six.
        #[test]
        fn scoring_is_total_and_the_whole_query_is_always_found(
            query in "\\PC{0,40}", before in "\\PC{0,20}", after in "\\PC{0,20}",
        ) {
            let parsed = Query::parse(&query);
            let text = format!("{before} {query} {after}");
            let scored = parsed.score(&text);
            prop_assert_eq!(&scored, &parsed.score(&text));
            prop_assert!(parsed.is_empty() || scored.score >= 6, "{:?}: {:?}", query, scored);
            prop_assert!(parsed.snippet(&text).chars().count() <= 180);
        }
    }
}
