//! Claims of Rust tests, also of those inside `proptest!` and other macros.

use proc_macro2::TokenTree;

use super::Claim;
use crate::rust_file::{Attribute, RustFile, ident, is_ident};
use crate::tree::SourceFile;

pub(super) fn claims(source: &SourceFile) -> Vec<Claim> {
    // A file that is no Rust is a finding of tidy; here it just has no tests.
    let Ok(file) = RustFile::lex(source) else { return Vec::new() };
    let lines: Vec<&str> = source.text.lines().collect();
    let mut claims = Vec::new();
    file.each_sequence(|tokens| {
        claims.extend(tests(tokens).into_iter().filter_map(|test| {
            let comment = comment(&lines, test.first_line, test.line);
            Claim::from_test(&source.path, test.line, test.name, &comment)
        }));
    });
    claims
}

struct Test {
    name: String,
    /// Where its attributes start.
    first_line: usize,
    /// Where its `fn` stands.
    line: usize,
}

/// The tests among these tokens, not those deeper down.
fn tests(tokens: &[TokenTree]) -> Vec<Test> {
    let mut tests = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let attributes = attributes(&tokens[at..]);
        let n_tokens: usize = attributes.iter().map(|(_, length)| length).sum();
        let is_test = attributes.iter().any(|(attribute, _)| attribute.name() == "test");
        if let (true, Some((name, line))) = (is_test, signature(&tokens[at + n_tokens..])) {
            tests.push(Test { name, first_line: attributes[0].0.line, line });
        }
        at += n_tokens.max(1);
    }
    tests
}

fn attributes(mut tokens: &[TokenTree]) -> Vec<(Attribute, usize)> {
    let mut attributes = Vec::new();
    while let Some((attribute, length)) = Attribute::at(tokens) {
        attributes.push((attribute, length));
        tokens = &tokens[length..];
    }
    attributes
}

/// The name of the function that starts here and the line of its `fn`; words such as `async` and
/// `pub(crate)` may stand before it.
fn signature(tokens: &[TokenTree]) -> Option<(String, usize)> {
    const QUALIFIERS_MAX: usize = 6;
    let at = tokens.iter().take(QUALIFIERS_MAX).position(|token| is_ident(token, "fn"))?;
    let name = ident(tokens.get(at + 1)?)?;
    Some((name, tokens[at].span().start().line))
}

/// The comment lines right above the attributes and among them. Lines count from 1.
fn comment(lines: &[&str], first_line: usize, fn_line: usize) -> String {
    let is_comment = |line: &&&str| {
        let line = line.trim_start();
        line.starts_with("//") && !line.starts_with("//!")
    };
    let above = lines[..first_line - 1].iter().rev().take_while(is_comment);
    let among = lines[first_line - 1..fn_line].iter().filter(is_comment);
    above.chain(among).copied().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, usize, &[&str])]) {
        let tree = Tree::of(&[("a.rs", text)]);
        let claims = claims(tree.file("a.rs").unwrap());
        let found: Vec<(String, usize, Vec<String>)> = claims
            .into_iter()
            .map(|claim| {
                (claim.test, claim.line, claim.ids.iter().map(ToString::to_string).collect())
            })
            .collect();
        let owned = |(test, line, ids): &(&str, usize, &[&str])| {
            ((*test).to_owned(), *line, ids.iter().map(|id| (*id).to_owned()).collect())
        };
        assert_eq!(found, expected.iter().map(owned).collect::<Vec<_>>());
    }

    #[test]
    fn a_name_claims() {
        check("#[test]\nfn d7_each_is_paired() {}", &[("d7_each_is_paired", 2, &["D7"])]);
    }

    #[test]
    fn comments_above_and_among_the_attributes_claim() {
        let text = "// S4-20: unknown.\n/// And S4-25.\n#[test]\n// D6\n#[should_panic]\nfn a() {}";
        check(text, &[("a", 6, &["D6", "S4-20", "S4-25"])]);
    }

    #[test]
    fn a_comment_apart_from_the_test_claims_nothing() {
        check("// S4-20\n\n#[test]\nfn a() {}\n#[test]\nfn b() {} // S4-21\n", &[]);
        check("//! S4-20\n#[test]\nfn a() {}\n", &[]);
    }

    #[test]
    fn tests_inside_macros_and_modules_claim() {
        let text = "mod tests {\n proptest! {\n  // D1\n  #[test]\n  fn a(x in 0..9u8) {}\n }\n}";
        check(text, &[("a", 5, &["D1"])]);
    }

    #[test]
    fn asynchronous_tests_claim() {
        check("#[tokio::test(start_paused)]\nasync fn d2() {}", &[("d2", 2, &["D2"])]);
    }

    #[test]
    fn strings_and_plain_functions_claim_nothing() {
        check("const T: &str = \"\n// D1\n#[test]\nfn d1() {}\n\";\nfn d2() {}", &[]);
        check("#[cfg(test)]\nfn d3() {}", &[]);
    }
}
