//! The form of a program's arguments: what is not named is refused.

use crate::mounts::Mounts;
use crate::virtual_path::VirtualPath;

/// A command that only looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The program by its path, and its arguments as they were given.
    pub argv: Vec<String>,
}

/// Why a command is not known to only look.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotALook {
    /// No program.
    #[error("no program was given")]
    Nothing,
    /// An unknown program.
    #[error("{name:?} is not among the programs that only look")]
    Program {
        /// What was given.
        name: String,
    },
    /// An argument with a NUL byte.
    #[error("an argument has a NUL byte in it")]
    Nul,
    /// An option that is not known to be harmless.
    #[error("the option {option:?} is not known to only look")]
    Option {
        /// What was given.
        option: String,
    },
    /// An option's value that is not of its kind.
    #[error("{value:?} is not a value that the option {option:?} takes here")]
    Value {
        /// The option.
        option: String,
        /// What was given.
        value: String,
    },
    /// Too few or too many operands, or one that is not of its kind.
    #[error("{operand:?} is not an operand that is taken here")]
    Operand {
        /// What was given; empty when one is missing.
        operand: String,
    },
    /// A path outside the mounted roots.
    #[error("{path:?} is in no mounted root")]
    Outside {
        /// What was given.
        path: String,
    },
}

/// Where a command would run.
pub(super) struct Place<'a> {
    pub(super) cwd: &'a VirtualPath,
    pub(super) mounts: &'a Mounts,
}

/// A program and the arguments with which it only looks.
pub(super) struct Program {
    pub(super) name: &'static str,
    /// Letters that stand alone or together: `-la`.
    pub(super) flags: &'static str,
    /// Letters that take a value: `-n 5`, `-n5`.
    pub(super) valued: &'static [(char, Value)],
    /// Long options without a value, by their whole name.
    pub(super) long: &'static [&'static str],
    /// Long options with a value after `=`, by their whole name.
    pub(super) long_valued: &'static [(&'static str, Value)],
    pub(super) operands: Operands,
}

/// What an option takes.
#[derive(Clone, Copy)]
pub(super) enum Value {
    /// Digits, perhaps after a sign.
    Number,
    /// Digits, commas and hyphens.
    Ranges,
    /// Anything: it is only looked for or shown.
    Text,
}

/// What a program takes beside options.
#[derive(Clone, Copy)]
pub(super) enum Operands {
    None,
    /// Any number of paths.
    Paths,
    /// Any number of paths; `-5` is an option too.
    PathsAfterNumber,
    /// A pattern, unless an option gave one, then paths.
    PatternThenPaths,
    /// So many texts, at most.
    Texts(usize),
    /// A format that begins with `+`.
    Format,
    /// The expression of `find`.
    Find,
    /// `-n` and lines to print, then paths.
    Sed,
}

impl Program {
    pub(super) fn check(&self, args: &[String], place: &Place<'_>) -> Result<(), NotALook> {
        if args.iter().any(|arg| arg.contains('\0')) {
            return Err(NotALook::Nul);
        }
        match self.operands {
            Operands::Find => return check_find(args, place),
            Operands::Sed => return check_sed(args, place),
            _ => {}
        }
        let mut operands = Vec::new();
        let mut pattern_given = false;
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            if arg == "--" {
                operands.extend(rest.by_ref());
            } else if let Some(option) = arg.strip_prefix("--") {
                self.check_long(option)?;
                pattern_given |= matches!(option, "files");
            } else if arg.len() > 1 && arg.starts_with('-') {
                pattern_given |= self.check_short(arg, &mut rest)?;
            } else {
                operands.push(arg);
            }
        }
        self.check_operands(&operands, pattern_given, place)
    }

    fn check_long(&self, option: &str) -> Result<(), NotALook> {
        let unknown = || NotALook::Option { option: format!("--{option}") };
        match option.split_once('=') {
            None if self.long.contains(&option) => Ok(()),
            None => Err(unknown()),
            Some((name, value)) => {
                let (_, kind) = self
                    .long_valued
                    .iter()
                    .find(|(known, _)| *known == name)
                    .ok_or_else(unknown)?;
                kind.check(name, value)
            }
        }
    }

    /// Checks letters, and the word after them when the last takes one. Whether a pattern was given.
    fn check_short(
        &self,
        arg: &str,
        rest: &mut std::slice::Iter<'_, String>,
    ) -> Result<bool, NotALook> {
        let letters = arg.get(1..).unwrap_or_default();
        let numbered = matches!(self.operands, Operands::PathsAfterNumber);
        if numbered && letters.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(false);
        }
        for (at, letter) in letters.char_indices() {
            if let Some((_, kind)) = self.valued.iter().find(|(known, _)| *known == letter) {
                let glued = letters.get(at + letter.len_utf8()..).unwrap_or_default();
                let value = match glued {
                    "" => {
                        rest.next().ok_or_else(|| NotALook::Operand { operand: String::new() })?
                    }
                    glued => glued,
                };
                kind.check(&format!("-{letter}"), value)?;
                return Ok(letter == 'e');
            }
            if !self.flags.contains(letter) {
                return Err(NotALook::Option { option: arg.to_owned() });
            }
        }
        Ok(false)
    }

    fn check_operands(
        &self,
        operands: &[&String],
        pattern_given: bool,
        place: &Place<'_>,
    ) -> Result<(), NotALook> {
        let refuse = |operand: &str| Err(NotALook::Operand { operand: operand.to_owned() });
        let paths = match self.operands {
            Operands::Paths | Operands::PathsAfterNumber => operands,
            Operands::PatternThenPaths if pattern_given => operands,
            Operands::PatternThenPaths => {
                operands.split_first().map_or(operands, |(_, paths)| paths)
            }
            Operands::Texts(most) => {
                return operands.get(most).map_or(Ok(()), |operand| refuse(operand));
            }
            Operands::Format => {
                return operands
                    .iter()
                    .find(|operand| !operand.starts_with('+'))
                    .map_or(Ok(()), |other| refuse(other));
            }
            Operands::None | Operands::Find | Operands::Sed => {
                return operands.first().map_or(Ok(()), |operand| refuse(operand));
            }
        };
        paths.iter().try_for_each(|path| place.check(path))
    }
}

impl Place<'_> {
    fn check(&self, path: &str) -> Result<(), NotALook> {
        if path == "-" {
            return Ok(()); // Standard input, which is empty.
        }
        let known =
            VirtualPath::parse(path, self.cwd).ok().and_then(|path| self.mounts.locate(&path));
        if known.is_some() { Ok(()) } else { Err(NotALook::Outside { path: path.to_owned() }) }
    }
}

impl Value {
    fn check(self, option: &str, value: &str) -> Result<(), NotALook> {
        let digits =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let fits = match self {
            Self::Number => digits(value.strip_prefix(['+', '-']).unwrap_or(value)),
            Self::Ranges => {
                !value.is_empty()
                    && value.bytes().all(|byte| byte.is_ascii_digit() || b",-".contains(&byte))
            }
            Self::Text => true,
        };
        if fits {
            Ok(())
        } else {
            Err(NotALook::Value { option: option.to_owned(), value: value.to_owned() })
        }
    }
}

/// Tests and actions of `find` that stand alone.
const FIND_PLAIN: &[&str] = &[
    "-a",
    "-and",
    "-o",
    "-or",
    "-not",
    "!",
    "(",
    ")",
    "-empty",
    "-print",
    "-print0",
    "-prune",
    "-readable",
    "-executable",
    "-true",
    "-false",
    "-depth",
    "-xdev",
    "-mount",
];
/// Tests of `find` with a value.
const FIND_VALUED: &[(&str, Value)] = &[
    ("-name", Value::Text),
    ("-iname", Value::Text),
    ("-path", Value::Text),
    ("-ipath", Value::Text),
    ("-wholename", Value::Text),
    ("-type", Value::Text),
    ("-size", Value::Text),
    ("-perm", Value::Text),
    ("-maxdepth", Value::Number),
    ("-mindepth", Value::Number),
    ("-mtime", Value::Number),
    ("-mmin", Value::Number),
    ("-atime", Value::Number),
    ("-amin", Value::Number),
    ("-links", Value::Number),
];

fn check_find(args: &[String], place: &Place<'_>) -> Result<(), NotALook> {
    let begins = |arg: &String| arg.starts_with('-') || arg == "!" || arg == "(";
    let split = args.iter().position(begins).unwrap_or(args.len());
    let (paths, expression) = args.split_at_checked(split).unwrap_or((args, &[]));
    paths.iter().try_for_each(|path| place.check(path))?;
    let mut rest = expression.iter();
    while let Some(word) = rest.next() {
        if FIND_PLAIN.contains(&word.as_str()) {
            continue;
        }
        let known = FIND_VALUED.iter().find(|(name, _)| name == word);
        let (name, kind) = known.ok_or_else(|| NotALook::Option { option: word.clone() })?;
        let value = rest.next().ok_or_else(|| NotALook::Operand { operand: String::new() })?;
        kind.check(name, value)?;
    }
    Ok(())
}

fn check_sed(args: &[String], place: &Place<'_>) -> Result<(), NotALook> {
    let [option, script, paths @ ..] = args else {
        return Err(NotALook::Operand { operand: String::new() });
    };
    if option != "-n" {
        return Err(NotALook::Option { option: option.clone() });
    }
    if printed_lines(script).is_none() {
        return Err(NotALook::Operand { operand: script.clone() });
    }
    match paths.iter().find(|path| path.starts_with('-')) {
        Some(option) => Err(NotALook::Option { option: option.clone() }),
        None => paths.iter().try_for_each(|path| place.check(path)),
    }
}

/// The first and last line of a script that only prints lines: `3p`, `3,9p`, `3,$p`. `None` as last is the end.
pub(super) fn printed_lines(script: &str) -> Option<(u64, Option<u64>)> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten().filter(|number| *number > 0)
    };
    let range = script.strip_suffix('p')?;
    match range.split_once(',') {
        None => number(range).map(|line| (line, Some(line))),
        Some((first, "$")) => Some((number(first)?, None)),
        Some((first, last)) => Some((number(first)?, Some(number(last)?))),
    }
}
