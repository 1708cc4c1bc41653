//! `haft explain`: a page for every code that the binary or the API prints.

use crate::Verdict;
use crate::terminal::{Paint, Tone, say_prose};
use crate::trouble::{Code, Trouble};

/// Explains an error's code: what happened, why, what to do. Without a code, lists them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The code, as it stands in `error[CODE]`.
    code: Option<String>,
}

macro_rules! pages {
    ($($code:literal),* $(,)?) => {
        &[$(($code, include_str!(concat!("../errors/", $code, ".md")))),*]
    };
}

const PAGES: &[(&str, &str)] = pages![
    "address_in_use",
    "already_open",
    "ambiguous_id",
    "api_error",
    "auth",
    "authentication_error",
    "bad_answer",
    "bad_arguments",
    "bad_config",
    "bad_definition",
    "bad_policy",
    "bad_sealing_key",
    "bad_store",
    "busy",
    "cancelled",
    "conflict_error",
    "denied",
    "duplicate_call",
    "ended",
    "expired",
    "failed",
    "gate",
    "grant_never_applies",
    "internal",
    "interrupted",
    "invalid_args",
    "invalid_request_error",
    "memory_path_conflict_error",
    "memory_precondition_failed_error",
    "misfit",
    "needs_owner",
    "no_call",
    "no_key",
    "no_page",
    "no_session",
    "no_store",
    "no_terminal",
    "no_tool",
    "no_undo",
    "not_allowed",
    "not_cancellable",
    "not_due",
    "not_found_error",
    "not_open",
    "nothing_done",
    "overloaded_error",
    "permission_error",
    "policy",
    "rate_limit_error",
    "rate_limited",
    "request_too_large",
    "stale",
    "store_in_use",
    "timeout",
    "tool_error",
    "undo_over",
    "unknown_grant",
    "unknown_tool",
    "unreachable",
    "unreadable",
    "untrusted_config",
    "upstream",
    "wrong_driver",
    "wrong_kind",
];

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let Some(code) = &args.code else {
        for (code, page) in PAGES {
            say_prose(&format!("{code:<34} {}", summary(page)), 35);
        }
        return Ok(Verdict::Holds);
    };
    let found = PAGES.iter().find(|(known, _)| known == code);
    let (_, page) = found.ok_or_else(|| {
        Trouble::new(Code::NoPage, format!("there is no page for `{code}`"))
            .next("`haft explain` lists every code")
    })?;
    let paint = Paint::stdout();
    for line in page.trim_end().lines() {
        let head = line.strip_prefix("## ").or_else(|| line.strip_prefix("# "));
        say_prose(&head.map_or_else(|| line.to_owned(), |head| paint.paint(Tone::Bold, head)), 0);
    }
    Ok(Verdict::Holds)
}

/// The line below the heading.
fn summary(page: &str) -> &str {
    page.lines().nth(2).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use haft_core::ErrorClass;

    use super::*;

    /// The words that a function of another crate can return, read from its source: what is added
    /// there shall have its page without anyone remembering this list.
    fn words(source: &str, function: &str) -> Vec<String> {
        let body = source.split_once(function).unwrap().1;
        let body = body.split_once("\n    }\n").unwrap().0;
        let quoted = body.split("=> \"").skip(1);
        quoted.map(|rest| rest.split_once('"').unwrap().0.to_owned()).collect()
    }

    #[test]
    fn every_code_that_can_be_printed_has_a_page_and_every_page_its_code() {
        let refusals = include_str!("../../haft-core/src/session/refusal.rs");
        let kinds = include_str!("../../haft-server/src/error.rs");
        let undoing = include_str!("../../haft-runtime/src/haft/error.rs");
        let undoing = words(undoing, "pub const fn code(&self)");
        let refusals = words(refusals, "pub const fn code(&self)");
        let kinds = words(kinds, "const fn word(self)");
        assert!(refusals.len() > 10 && kinds.len() > 5, "{refusals:?} {kinds:?}");
        assert!(undoing.len() > 3, "{undoing:?}");
        let own = Code::ALL.iter().map(|code| code.word().to_owned());
        let classes = ErrorClass::ALL.iter().map(|class| class.code().to_owned());
        let mut codes: Vec<String> = own.chain(classes).chain(refusals).chain(kinds).collect();
        codes.extend(undoing);
        codes.sort();
        codes.dedup();
        let pages: Vec<&str> = PAGES.iter().map(|(code, _)| *code).collect();
        assert_eq!(pages, codes);
        for (code, page) in PAGES {
            assert!(page.starts_with(&format!("# {code}\n\n")), "{code}");
            assert!(page.contains("\n## Why\n") && page.contains("\n## What to do\n"), "{code}");
        }
    }
}
