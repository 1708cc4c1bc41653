//! No glob re-exports: they hide where a thing lives and make everything public.

use proc_macro2::{Delimiter, TokenTree};

use super::Finding;
use crate::rust_file::{RustFile, is_ident, is_punct};

pub(super) fn check(file: &RustFile<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    file.each_sequence(|tokens| {
        let globs = (0..tokens.len()).filter(|at| is_glob_reexport(&tokens[*at..]));
        findings.extend(globs.map(|at| {
            let line = tokens[at].span().start().line;
            Finding::new(&file.source.path, line, "glob re-export", "list the names")
        }));
    });
    findings
}

fn is_glob_reexport(tokens: &[TokenTree]) -> bool {
    let rest = match tokens {
        [public, rest @ ..] if is_ident(public, "pub") => rest,
        _ => return false,
    };
    let rest = match rest {
        [TokenTree::Group(within), rest @ ..] if within.delimiter() == Delimiter::Parenthesis => {
            rest
        }
        _ => rest,
    };
    match rest {
        [keyword, path @ ..] if is_ident(keyword, "use") => has_glob(path) && !is_permitted(path),
        _ => false,
    }
}

/// `crate::schema_trait::*` is permitted: a module of `haft` with one name in it, the trait
/// `JsonSchema`. Only a glob leaves the derive of the same name to the crate's own.
fn is_permitted(path: &[TokenTree]) -> bool {
    matches!(path, [start, _, _, module, _, _, glob, ..]
        if is_ident(start, "crate") && is_ident(module, "schema_trait") && is_punct(glob, '*'))
}

fn has_glob(path: &[TokenTree]) -> bool {
    let mut path = path.iter().take_while(|token| !is_punct(token, ';'));
    path.any(|token| match token {
        TokenTree::Group(group) => has_glob(&group.stream().into_iter().collect::<Vec<_>>()),
        TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => is_punct(token, '*'),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    #[test]
    fn globs_are_found_at_any_depth_and_visibility() {
        let expected = ["a.rs:2: glob re-export; list the names"];
        for text in ["pub use a::*;", "pub(crate) use a::{B, c::*};", "mod m { pub use a::*; }"] {
            assert_findings(check, ("a.rs", &format!("//! Doc.\n{text}")), &expected);
        }
    }

    #[test]
    fn names_and_private_globs_pass() {
        let text = "pub use a::{B, C}; use super::*; pub const N: u8 = 2 * 3; \
                    pub use crate::schema_trait::*;";
        assert_findings(check, ("a.rs", text), &[]);
    }
}
