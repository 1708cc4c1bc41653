//! What a plain command amounts to among the file operations, where it surely amounts to one.

use super::grammar::printed_lines;
use crate::files::{Kind, Window};

/// A file operation that does what a command would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Projection {
    /// Reading a file.
    Read {
        /// The file.
        path: String,
        /// Which part.
        window: Window,
    },
    /// Counting a file's lines: reading a little tells it.
    CountLines {
        /// The file.
        path: String,
    },
    /// Finding entries by name.
    Glob {
        /// Where.
        path: String,
        /// The form of the name.
        pattern: String,
        /// Which kind.
        kind: Option<Kind>,
    },
    /// Finding lines.
    Grep {
        /// Where.
        path: String,
        /// What.
        query: String,
        /// Whether it is a regular expression.
        regex: bool,
        /// Whether letters match their other case.
        any_case: bool,
    },
}

/// What a simple command amounts to; `None` when that is not sure.
pub fn project(words: &[String]) -> Option<Projection> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["cat", path] => read(path, Window::Whole),
        ["head", path] => read(path, Window::Lines { first: 1, count: 10 }),
        ["head", "-n", count, path] => {
            read(path, Window::Lines { first: 1, count: number(count)? })
        }
        ["tail", path] => read(path, Window::Tail { count: 10 }),
        ["tail", "-n", count, path] => read(path, Window::Tail { count: number(count)? }),
        ["sed", "-n", script, path] => {
            let (first, last) = printed_lines(script)?;
            let last = last?.max(first);
            read(path, Window::Lines { first, count: last - first + 1 })
        }
        ["wc", "-l", path] => Some(Projection::CountLines { path: operand(path)? }),
        ["ls", rest @ ..] => list(rest),
        ["find", rest @ ..] => find(rest),
        ["grep", rest @ ..] => grep(rest),
        ["rg", rest @ ..] => rg(rest),
        _ => None,
    }
}

fn read(path: &str, window: Window) -> Option<Projection> {
    Some(Projection::Read { path: operand(path)?, window })
}

fn operand(text: &str) -> Option<String> {
    (!text.is_empty() && !text.starts_with('-')).then(|| text.to_owned())
}

fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn list(rest: &[&str]) -> Option<Projection> {
    let (_, paths) = split_flags(rest, "Aal1")?;
    let path = match paths {
        [] => ".".to_owned(),
        [path] => operand(path)?,
        _ => return None,
    };
    Some(Projection::Glob { path, pattern: "*".to_owned(), kind: None })
}

fn find(rest: &[&str]) -> Option<Projection> {
    let (path, rest) = match rest {
        [first, rest @ ..] if !first.starts_with('-') => (operand(first)?, rest),
        rest => (".".to_owned(), rest),
    };
    let (kind, rest) = match rest {
        ["-type", "f", rest @ ..] => (Some(Kind::File), rest),
        ["-type", "d", rest @ ..] => (Some(Kind::Directory), rest),
        rest => (None, rest),
    };
    match rest {
        ["-name", pattern] => Some(Projection::Glob { path, pattern: (*pattern).to_owned(), kind }),
        _ => None,
    }
}

/// `grep` has a language of its own for patterns; only where that makes no difference is it ours.
fn grep(rest: &[&str]) -> Option<Projection> {
    let (given, operands) = split_flags(rest, "niFrR")?;
    let (query, path) = query_and_path(operands)?;
    let literal = given.contains('F')
        || query.chars().all(|char| char.is_alphanumeric() || " _-/:,".contains(char));
    let recursive = given.contains(['r', 'R']);
    let path = if recursive { path.unwrap_or_else(|| ".".to_owned()) } else { path? };
    literal.then_some(Projection::Grep { path, query, regex: false, any_case: given.contains('i') })
}

fn rg(rest: &[&str]) -> Option<Projection> {
    let (given, operands) = split_flags(rest, "ni")?;
    let (query, path) = query_and_path(operands)?;
    let path = path.unwrap_or_else(|| ".".to_owned());
    Some(Projection::Grep { path, query, regex: true, any_case: given.contains('i') })
}

fn query_and_path(operands: &[&str]) -> Option<(String, Option<String>)> {
    match operands {
        [query] => Some((operand(query)?, None)),
        [query, path] => Some((operand(query)?, Some(operand(path)?))),
        _ => None,
    }
}

/// The letters of leading flags, all of which must be known, and what follows.
fn split_flags<'a>(words: &'a [&'a str], known: &str) -> Option<(String, &'a [&'a str])> {
    let split = words.iter().position(|word| !word.starts_with('-')).unwrap_or(words.len());
    let (flags, rest) = words.split_at_checked(split)?;
    let letters: String = flags.iter().map(|flag| flag.get(1..).unwrap_or_default()).collect();
    let plain = flags.iter().all(|flag| flag.len() > 1)
        && letters.chars().all(|letter| known.contains(letter));
    plain.then_some((letters, rest))
}
