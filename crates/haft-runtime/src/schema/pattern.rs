//! How much work a pattern can make, counted before it is compiled.
//!
//! Matching is linear in the text, but each character may visit every place of the pattern that
//! it could stand at. How many that are is what a pattern can cost, whatever it is compiled to:
//! `[ab]*a[ab]{1000}c` has a thousand at once, `\w+` two. A pattern that begins where the text
//! does and ends soon after costs little however large it is: the rest of the text is not read.

use regex_syntax::hir::{Hir, HirKind, Look};
use serde_json::{Map, Value};

use super::compile::CompileError;

/// The most places of one pattern that a character may have to be held against. With a text as
/// long as arguments may be, that is a second in the worst case, and a hundredth of it usually.
const PLACES_MAX: usize = 256;
/// The most of a pattern that reads no more of a text than it is long.
const SHORT_PLACES_MAX: usize = 4096;
/// The most of all patterns together.
const ALL_PLACES_MAX: usize = 1024;

/// Looks at every pattern of a schema.
///
/// # Errors
///
/// When matching one, or all of them, could take too much work.
pub(super) fn check(document: &Value) -> Result<(), CompileError> {
    let mut left = ALL_PLACES_MAX;
    let mut open = vec![document];
    while let Some(value) = open.pop() {
        let members = match value {
            Value::Object(members) => members,
            Value::Array(items) => {
                open.extend(items);
                continue;
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => continue,
        };
        open.extend(members.values());
        let properties = members.get("patternProperties").and_then(Value::as_object);
        let properties = properties.into_iter().flat_map(Map::keys).map(String::as_str);
        let pattern = members.get("pattern").and_then(Value::as_str);
        for pattern in pattern.into_iter().chain(properties) {
            let found = places(pattern);
            let max = PLACES_MAX.min(left);
            if found > max {
                return Err(CompileError::costly_pattern(pattern, found, max));
            }
            left -= found;
        }
    }
    Ok(())
}

/// Returns how many places of a pattern a character of any text may have to be held against; 0
/// when only so much of the text is read as the pattern is long.
fn places(pattern: &str) -> usize {
    match regex_syntax::parse(pattern) {
        Ok(hir) => match places_of(&hir) {
            0..=SHORT_PLACES_MAX if is_short_reader(&hir) => 0,
            places => places,
        },
        // Written in the other dialect, or no pattern at all: compiling tells. Its text bounds it.
        Err(_) => pattern.len().saturating_mul(largest_number(pattern)),
    }
}

/// Returns whether a match must begin with the text and cannot be long.
fn is_short_reader(hir: &Hir) -> bool {
    let properties = hir.properties();
    properties.maximum_len().is_some() && properties.look_set_prefix().contains(Look::Start)
}

fn places_of(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(_) => 1,
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or_else(|| repetition.min.saturating_add(1)).max(1);
            let times = usize::try_from(times).unwrap_or(usize::MAX);
            places_of(&repetition.sub).saturating_mul(times)
        }
        HirKind::Capture(capture) => places_of(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(places_of).fold(0, usize::saturating_add)
        }
    }
}

fn largest_number(text: &str) -> usize {
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let numbers = numbers.map(|digits| digits.parse().unwrap_or(usize::MAX));
    numbers.max().unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_what_a_character_may_be_held_against() {
        for (pattern, expected) in [
            ("[ab]*a[ab]{1000}c", 1003),
            (r"\w+", 1),
            ("^.{1,400}$", 0),
            (".{1,400}$", 400),
            ("^(a|bc)?$", 0),
            ("^(a|bc)*$", 3),
            ("a{10}{10}", 100),
            (r"\1(a){7}", 56),
        ] {
            assert!(places(pattern) >= expected, "{pattern}: {}", places(pattern));
            assert!(places(pattern) <= expected * 2, "{pattern}: {}", places(pattern));
        }
    }
}
