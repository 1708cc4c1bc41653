//! Requirement ids and how they are written: `S4-20` in prose, `s4_20` in a name.

use std::fmt;

/// An id of the right form; whether the index knows it is another question.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id(String);

impl Id {
    /// Reads `S4-20`, `S2-T5` or `D7`.
    pub(crate) fn parse(text: &str) -> Option<Id> {
        let is_id = match text.split_once('-') {
            Some((document, item)) => is_numbered(document, "S") && is_item(item),
            None => is_numbered(text, "D"),
        };
        is_id.then(|| Id(text.to_owned()))
    }

    /// The document that the requirement comes from: `S4` of `S4-20`, `D` of `D7`.
    pub(crate) fn document(&self) -> &str {
        self.0.split_once('-').map_or("D", |(document, _)| document)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The ids that stand as words in a comment or a sentence.
pub(super) fn in_prose(text: &str) -> Vec<Id> {
    let words =
        text.split(|character: char| !character.is_ascii_alphanumeric() && character != '-');
    words.filter_map(|word| Id::parse(word.trim_matches('-'))).collect()
}

/// The ids that stand as words in a name: `d7_…`, `…_s4_20_…`, `s2_t5`.
pub(super) fn in_name(name: &str) -> Vec<Id> {
    let words: Vec<&str> =
        name.split(|character: char| !character.is_ascii_alphanumeric()).collect();
    let at = |at: usize| {
        let word = words[at].to_ascii_uppercase();
        if is_numbered(words[at], "d") {
            return Id::parse(&word);
        }
        let item = words.get(at + 1)?.to_ascii_uppercase();
        is_numbered(words[at], "s").then(|| Id::parse(&format!("{word}-{item}")))?
    };
    (0..words.len()).filter_map(at).collect()
}

fn is_numbered(word: &str, prefix: &str) -> bool {
    word.strip_prefix(prefix).is_some_and(is_number)
}

/// A number, or a number after the letter of a list: events, artifacts, tools.
fn is_item(item: &str) -> bool {
    is_number(item.strip_prefix(['A', 'E', 'T']).unwrap_or(item))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(found: &[Id], expected: &[&str]) {
        let found: Vec<String> = found.iter().map(Id::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn prose_carries_ids_as_words() {
        check(&in_prose("// S4-20, S4-25: a late answer (D7)."), &["S4-20", "S4-25", "D7"]);
        check(&in_prose("/// S2-E3/S2-A14, S0-22…S0-25"), &["S2-E3", "S2-A14", "S0-22", "S0-25"]);
        check(&in_prose("ISO-8601, UTF-8, S3, 3D2, SHA2-256, S2-X1, d7"), &[]);
    }

    #[test]
    fn names_carry_ids_anywhere() {
        check(&in_name("s4_20_a_second_answer_is_stale"), &["S4-20"]);
        check(&in_name("a_kill_is_survived_d4_s2_t5"), &["D4", "S2-T5"]);
        check(&in_name("s2_e3"), &["S2-E3"]);
        check(&in_name("reads_sha2_256_and_s3_buckets_twice"), &[]);
    }

    #[test]
    fn an_id_knows_its_document() {
        let document = |id: &str| Id::parse(id).map(|id| id.document().to_owned());
        assert_eq!(document("S2-T5").as_deref(), Some("S2"));
        assert_eq!(document("D7").as_deref(), Some("D"));
    }
}
