//! What a shell tells after each command: how it ended, where the shell is, and what it exports.

use crate::environment::Variables;
use crate::virtual_path::VirtualPath;

/// Set by the shell or the sandbox themselves; a fresh shell has its own.
const OWN: &[&str] = &[
    "HOME",
    "LANG",
    "NODE_USE_ENV_PROXY",
    "OLDPWD",
    "PATH",
    "PWD",
    "SHLVL",
    "TERM",
    "TMPDIR",
    "_",
];

/// One report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) code: u8,
    pub(super) cwd: Option<VirtualPath>,
    pub(super) variables: Variables,
}

/// What a shell says first when it has run a script, before the code and a NUL.
const RAN: u8 = 1;

/// The line that runs a script and then says so. The script stands in single quotes, where nothing is
/// special but their end. A shell reads a line before it runs it: while the script runs, nothing is left to
/// be read.
pub(super) fn run(
    script: &str,
    (out, err): (usize, usize),
    files: std::ops::Range<usize>,
) -> String {
    let quoted = script.replace('\'', r"'\''");
    let closed: String = files.map(|number| format!(" {number}>&-")).collect();
    format!(
        "builtin eval '{quoted}' </dev/null >&{out} 2>&{err}{closed}; \
         builtin printf '\\1%s\\0' \"$?\" >&3\n"
    )
}

/// The codes with which a script ended, as the shell has said so far. That proves nothing, since whoever
/// runs in the shell can say it; a report with the nonce has to follow.
pub(super) fn codes(told: &[u8]) -> impl Iterator<Item = u8> {
    memchr::memchr_iter(RAN, told).filter_map(|at| {
        let said = told.get(at + 1..)?;
        let end = memchr::memchr(0, said)?;
        std::str::from_utf8(said.get(..end)?).ok()?.parse().ok()
    })
}

/// The line that has the shell report, as the reply to `nonce`. It is sent when the shell has said that
/// the script ran: while that runs, the nonce is nowhere in the sandbox.
pub(super) fn report(nonce: &str, code: u8) -> String {
    format!(
        "builtin printf '%s\\0%s\\0%s\\0' {nonce} {code} \"$PWD\" >&3; \
         builtin declare -px >&3; builtin printf '\\0' >&3\n"
    )
}

/// Reads the report that begins with `nonce`, passing over whatever else was written there; `None` until
/// it is complete.
pub(super) fn read(told: &[u8], nonce: &str) -> Option<Status> {
    let start = memchr::memmem::find(told, format!("{nonce}\0").as_bytes())?;
    let mut fields = told.get(start..)?.split(|byte| *byte == 0);
    let (_, code, cwd, exports) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    // The field after the last NUL shows that the exports are complete.
    fields.next()?;
    Some(Status {
        code: std::str::from_utf8(code).ok()?.parse().ok()?,
        cwd: VirtualPath::of_inside(cwd),
        variables: variables(&String::from_utf8_lossy(exports)),
    })
}

/// The exports that may be given to another shell.
fn variables(mut declared: &str) -> Variables {
    let mut variables = Variables::new();
    while let Some((_, after)) = declared.split_once("declare -x ") {
        let end = after.find(['=', '\n']).unwrap_or(after.len());
        let (name, rest) = after.split_at(end);
        declared = rest;
        let Some(quoted) = rest.strip_prefix('=') else { continue };
        let Some((value, rest)) = unquote(quoted) else { break };
        declared = rest;
        if !OWN.contains(&name) {
            // What a fresh shell may not be given is left behind.
            variables.set(name, &value).ok();
        }
    }
    variables
}

/// A value as `declare` writes it, and what follows.
fn unquote(text: &str) -> Option<(String, &str)> {
    if let Some(inside) = text.strip_prefix('"') {
        return until_quote(inside, '"', |escaped, _| Some(escaped));
    }
    until_quote(text.strip_prefix("$'")?, '\'', |escaped, rest| {
        Some(match escaped {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'a' => '\x07',
            'b' => '\x08',
            'E' | 'e' => '\x1b',
            'f' => '\x0c',
            'v' => '\x0b',
            digit @ '0'..='7' => {
                let more: String =
                    rest.clone().take(2).take_while(|next| next.is_digit(8)).collect();
                rest.nth(more.len().checked_sub(1)?)?;
                char::from_u32(u32::from_str_radix(&format!("{digit}{more}"), 8).ok()?)?
            }
            other => other,
        })
    })
}

fn until_quote(
    text: &str,
    quote: char,
    escape: impl Fn(char, &mut std::str::Chars<'_>) -> Option<char>,
) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text.chars();
    loop {
        match rest.next()? {
            end if end == quote => return Some((value, rest.as_str())),
            '\\' => {
                let escaped = rest.next()?;
                value.push(escape(escaped, &mut rest)?);
            }
            char => value.push(char),
        }
    }
}
